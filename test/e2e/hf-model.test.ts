/** A model folder as the hub has it, from the command line to the answer: `inspect`, `tokenize`, and the server. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { runMain } from "../helpers/run-main.js";
import { post, startTestServer } from "../helpers/server.js";

const folder = join(mkdtempSync(join(tmpdir(), "millrace-hf-")), "tiny-qwen2");
afterAll(() => rmSync(join(folder, ".."), { recursive: true }));
cpSync(fixture("hf/qwen2"), folder, { recursive: true });
cpSync(fixture("hf-tokenizers/qwen2"), folder, { recursive: true });
const { chats } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as {
  chats: { messages: object[]; ids: number[] }[];
};

test("inspect describes it", async () => {
  const { stdout } = await runMain("inspect", "--model", folder, "--json");
  expect(JSON.parse(stdout)).toMatchObject({
    name: "tiny-qwen2",
    architecture: "qwen2",
    numShards: 1,
    numTensors: 27,
    types: [{ type: "F16", numTensors: 27 }],
    bitsPerWeight: 16,
    tokenizer: { model: "tokenizer.json", numTokens: 288, hasChatTemplate: true },
    model: { contextLength: 256, numLayers: 2, width: 32, headDim: 8, vocabSize: 288 },
  });
});

test("tokenize uses its tokenizer", async () => {
  const { stdout } = await runMain("tokenize", "--model", folder, "--text", "<think>a</think>", "--json");
  expect(JSON.parse(stdout)).toHaveLength(3);
});

test("the server answers a chat with the model's own template, the same each time", async () => {
  await using server = await startTestServer(["--model", folder]);
  const { messages, ids } = chats[1]!;
  const ask = () =>
    post<{ model: string; usage: { prompt_tokens: number }; choices: [{ message: { content: string } }] }>(
      `${server.url}/v1/chat/completions`,
      { messages, max_tokens: 12, temperature: 0 },
    );
  const [first, second] = [await ask(), await ask()];
  expect(first).toMatchObject({ model: "tiny-qwen2", usage: { prompt_tokens: ids.length } });
  expect(second.choices[0].message).toEqual(first.choices[0].message);
});
