import { expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";

const EAGLE = '{"method":"eagle","model":"x","draft_tensor_parallel_size":1}';

test.each([
  ["another engine's own keys", ["--engine", "vllm", "--speculative-config", EAGLE], /no-such-model/],
  ["keys that ours lacks", ["--speculative-config", EAGLE], /--speculative-config: expected/],
  ["no object", ["--engine", "vllm", "--speculative-config", "[1]"], /--speculative-config: expected a JSON object/],
  ["cells with --running", ["--running", "http://127.0.0.1:1", "--cells", "ladder"], /--running .*, got --cells/],
  ["weights with --running", ["--running", "http://127.0.0.1:1", "--quantized", "q"], /--running .*, got --quantized/],
  ["baselines with --running", ["--running", "http://127.0.0.1:1", "--transformers", "p"], /, got --transformers/],
  ["an engine nobody knows", ["--engine", "tgi"], /millrace, vllm, sglang, llama-server/],
])("%s", async (_, args, message) => {
  const { stderr, exitCode } = await runMain("bench", "ablate", "--model", "no-such-model.gguf", ...args);
  expect(stderr.split("\n")[0]).toMatch(message);
  expect(exitCode).not.toBe(0);
});
