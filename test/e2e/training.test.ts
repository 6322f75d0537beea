/**
 * The training pipeline at toy size, and its tokenizer and heads against the engine's; needs a Python with PyTorch
 * (models/requirements.txt).
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { readGguf } from "../../src/formats/gguf/read.js";
import { createTokenizer } from "../../src/text/tokenizer/create-tokenizer.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { guessesAfter } from "../helpers/guesses.js";
import { canTrain, python } from "../helpers/python.js";

const isPresent = canTrain();

test.skipIf(!isPresent)(
  "the training pipeline at toy size [needs a Python with PyTorch]",
  {
    timeout: 600_000,
  },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "millrace-training-"));
    try {
      const script = join(repositoryRoot(), "models/training/test_pipeline.py");
      const { stderr } = await promisify(execFile)(python, [script], {
        env: { ...process.env, MILL_TEST_FOLDER: folder, OMP_WAIT_POLICY: "PASSIVE" },
      });
      expect(stderr).toMatch(/\nOK\s*$/);
      const tokenizer = createTokenizer(readGguf(join(folder, "base.gguf")).metadata);
      const lines = readFileSync(join(folder, "tokens.jsonl"), "utf8").split("\n");
      for (const line of lines) {
        const { text, tokens } = JSON.parse(line) as { text: string; tokens: number[] };
        expect(tokenizer.encode(text, { addSpecial: false, parseSpecial: true })).toEqual(tokens);
      }
      for (const line of readFileSync(join(folder, "guesses.jsonl"), "utf8").split("\n")) {
        const { heads: name, ids, guesses } = JSON.parse(line) as { heads: string; ids: number[]; guesses: number[] };
        const heads = join(folder, `random-${name}${name === "eagle3" ? "" : ".gguf"}`);
        expect(await guessesAfter(join(folder, "random.gguf"), heads, [{ ids, chunk: 16 }], 4)).toEqual([guesses]);
      }
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);
