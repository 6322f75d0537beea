/** Reads the runs saved by `bench peers --out`. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { PeerRun } from "./run.js";

const lengths = { promptTokens: z.number(), genTokens: z.number() };
const row = z.object({ ...lengths, batch: z.number(), prefillTokensPerS: z.number(), decodeTokensPerS: z.number() });
const shape = z.object({ ...lengths, name: z.enum(["prefill", "decode", "context"]), batches: z.array(z.number()) });
const run = z.object({ model: z.string(), shape, contender: z.string(), round: z.number(), rows: z.array(row) });
const report = z.object({ runs: z.array(run) });

/** Throws file_unreadable. */
export function readRuns(path: string): PeerRun[] {
  try {
    return report.parse(JSON.parse(readFileSync(path, "utf8"))).runs;
  } catch (cause) {
    const got = cause instanceof z.ZodError ? z.prettifyError(cause) : String(cause);
    throw new MillraceError("file_unreadable", `expected saved runs in ${path}, got ${got}`, { cause });
  }
}
