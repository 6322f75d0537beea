/** Prompts keyed by tokens, and prompts keyed by text. */
import { expect, test, vi } from "vitest";
import { TextKeySource } from "./key-source.js";
import { TokenKeySource } from "./token-keys.js";

const messages = (count: number) => Array.from({ length: count }, () => ({ role: "user", content: "hi" }));

test("prompts with many bytes, messages or items get keys from their text", async () => {
  let numRead = 0;
  const read = async () => {
    numRead++;
    return { prompts: [Array.from({ length: 40 }, (_, i) => i)], salt: undefined };
  };
  const source = new TokenKeySource(read, 16, new TextKeySource());
  const path = "/v1/chat/completions";
  for (const body of [{ messages: messages(256) }, { input: messages(256) }, { prompt: "a" }, { prompt: [1, 2] }]) {
    expect(await source.keysOf(body, path, 1000)).toMatchObject({ blockSize: 16, promptTokens: 40 });
  }
  expect((await source.keysOf({ prompt: Array.from({ length: 5000 }, () => 1) }, path, 1000)).blockSize).toBe(16);
  expect(numRead).toBe(5);
  for (const body of [{ messages: messages(257) }, { input: messages(257) }]) {
    expect(await source.keysOf(body, path, 1000)).not.toHaveProperty("blockSize");
  }
  expect(await source.keysOf({ prompt: "a" }, path, 256 * 1024)).toHaveProperty("blockSize");
  expect(await source.keysOf({ prompt: "a" }, path, 256 * 1024 + 1)).not.toHaveProperty("blockSize");
  expect(numRead).toBe(6);
});

test("the tokenizer gets the request's tenant, even if all tenants share prefixes", async () => {
  const read = vi.fn(async () => undefined);
  const owner = { tenant: "mine", watch: () => () => {} };
  await new TokenKeySource(read, 16, new TextKeySource()).keysOf({ prompt: "a" }, "/v1/completions", 10, "", owner);
  expect(read).toHaveBeenCalledWith("/v1/completions", { prompt: "a" }, owner);
});
