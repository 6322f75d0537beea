/**
 * What docs/background/benchmarks/shortening.md claims: a fifth of the tokens at least, at a drop whose 95 % interval
 * excludes 2 points.
 */
import { join } from "node:path";
import { expect, test } from "vitest";
import { redundantChats } from "../../models/corpus/redundant.js";
import { runCli } from "../helpers/run-cli.js";
import { tempTree } from "../scripts/temp-tree.js";

const MINUTE_MS = 60_000;
const ITEMS = 3000;

test.each(["extract", "passage"])(
  "%s with planted redundancy",
  async (family) => {
    const lines = redundantChats(1_000_001, ITEMS, family).map((chat) => JSON.stringify(chat));
    const root = tempTree({ "chats.jsonl": lines.join("\n") });
    const args = ["--methods", "rules", "--json", "--out", join(root, "short.jsonl")];
    const { stdout, stderr, exitCode } = await runCli("prompts", "shorten", join(root, "chats.jsonl"), ...args);
    expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
    const { comparison, saved } = JSON.parse(stdout).confirmation;
    expect(saved).toBeGreaterThan(0.2);
    expect(comparison).toMatchObject({ verdict: "passes", overall: { numItems: ITEMS / 2 } });
    expect(comparison.overall.interval[1]).toBeLessThan(0.02);
  },
  60 * MINUTE_MS,
);
