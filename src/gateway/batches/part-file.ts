/**
 * A part of a batch: lines of one model that go to its provider in one file. What is known of it is written before each
 * step, so that a gateway that is killed finds out what it has sent.
 *
 * ready: the lines lie on the disk, and are paid for by a reservation; sending: the provider may have them; sent: its
 * batch is known; over: every line has its result, or will get none here.
 */
import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { BatchFolders } from "./folders.js";

const part = z.object({
  /** Index of the model in the batch's list. */
  model: z.number(),
  /** From 0, for each model. */
  number: z.number(),
  /** The part's lines are those of its model in [from, to). */
  from: z.number(),
  to: z.number(),
  numLines: z.number(),
  path: z.string(),
  headers: z.record(z.string(), z.string()),
  /** Reserved of budgets; absent: none applies. */
  reserved: z.object({ money: z.number(), tokens: z.number() }).optional(),
  stage: z.enum(["ready", "sending", "sent", "over"]),
  /** From 0: the same lines may be sent again if the provider has run none of them. */
  attempt: z.number(),
  fileId: z.string().optional(),
  batchId: z.string().optional(),
  /** Milliseconds since 1970. */
  sentMs: z.number().optional(),
});

export type Part = Readonly<z.output<typeof part>>;

const nameOf = ({ model, number }: Pick<Part, "model" | "number">): string => `part-${model}-${number}`;

export class PartFiles {
  constructor(
    private readonly folders: BatchFolders,
    private readonly batchId: string,
  ) {}

  /** Lines of a part, as its provider gets them. */
  lines(of: Pick<Part, "model" | "number">): string {
    return this.folders.part(this.batchId, `${nameOf(of)}.jsonl`);
  }

  /** All parts of the batch, in order. */
  async read(): Promise<readonly Part[]> {
    const folder = dirname(this.#path({ model: 0, number: 0 }));
    const names = await readdir(folder);
    const parts = await Promise.all(
      names.filter((name) => /^part-\d+-\d+\.json$/.test(name)).map((name) => readPart(join(folder, name))),
    );
    return parts.sort((a, b) => a.model - b.model || a.number - b.number);
  }

  /** Replaces the file at once, and waits until it would survive a power cut. */
  async write(written: Part): Promise<void> {
    const path = this.#path(written);
    await writeFile(`${path}.new`, JSON.stringify(written), { mode: 0o600, flush: true });
    await rename(`${path}.new`, path);
  }

  #path(of: Pick<Part, "model" | "number">): string {
    return this.folders.part(this.batchId, `${nameOf(of)}.json`);
  }
}

async function readPart(path: string): Promise<Part> {
  const read = part.safeParse(JSON.parse(await readFile(path, "utf8")));
  if (read.success) return read.data;
  throw new MillraceError("file_unreadable", `expected a part of a batch in ${basename(path)}, got something else`);
}
