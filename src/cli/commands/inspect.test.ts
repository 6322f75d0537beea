import { expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";

test("a file that is no model for the engine says what it is for", async () => {
  const { stdout, exitCode } = await runMain("inspect", "--model", "models/mill-heads.gguf");
  expect(stdout).toMatch(/not served +\[architecture_unsupported\] expected one of llama, .*, got mill-heads\n/);
  expect(stdout).toMatch(/hint: the file has trained heads: serve the model .* with --speculative-config/);
  expect(exitCode).toBe(0);
});

test("a folder without a tokenizer has none, and its context is that of its table of positions", async () => {
  const { stdout } = await runMain("inspect", "--model", "test/fixtures/hf/gpt2");
  expect(stdout).toMatch(/^tokenizer +none$/m);
  expect(stdout).toMatch(/^context +160 tokens$/m);
});
