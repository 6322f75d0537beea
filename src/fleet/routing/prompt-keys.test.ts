import { expect, test, vi } from "vitest";
import { modelSpec } from "../../../test/helpers/fleet.js";
import { upstreamOf } from "../../../test/helpers/fleet-pool.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import { PromptKeys } from "./prompt-keys.js";
import type { PromptReader } from "./token-keys.js";

const capacity = { seats: 4, kvTokens: 4096, blockSize: 8 };
const instances = (count: number) => Array.from({ length: count }, (_, i) => upstreamOf(`m-${i}`, { capacity }));
const spec = modelSpec({ engine: "millrace", options: { model: "m.gguf" } });
const body = { prompt: "x".repeat(300) };
/** 33 tokens, for any request. */
const read: PromptReader = async () => ({ prompts: [new Array<number>(33).fill(5)], salt: undefined });

function keysWith(load: (spec: ModelSpec) => Promise<PromptReader | undefined>) {
  const notes: string[] = [];
  const note = (_: object, text: string) => notes.push(text);
  const keys = new PromptKeys(load, { info: note, warn: note, error: note } as never);
  const ask = async (of = spec, count = 2, numBytes = 300) =>
    keys.sourceFor(of, instances(count)).keysOf(body, "/v1/completions", numBytes);
  return { keys, ask, notes };
}

test("keys come from the text until the tokenizer is loaded, then from the engine's blocks", async () => {
  const { ask, notes } = keysWith(async () => read);
  expect(await Promise.all([ask(), ask()])).toMatchObject([{ numBlocks: 307 / 128 }, { numBlocks: 307 / 128 }]);
  // The last token is always computed, so at most four of the 33/8 blocks can match.
  expect(await ask()).toMatchObject({ blockSize: 8, promptTokens: 33, numBlocks: 33 / 8, keys: { length: 4 } });
  expect(notes).toEqual(["routed by tokens"]);
});

test("keys come from the text for single instances, other engines, long requests and unreadable prompts", async () => {
  const { ask } = keysWith(async () => read);
  await ask();
  for (const keys of [ask(spec, 1), ask({ ...spec, engine: "sglang" }), ask(spec, 2, 300_000)]) {
    expect((await keys).blockSize).toBeUndefined();
  }
  for (const load of [
    async () => undefined,
    () => Promise.reject(new Error("no tokenizer")),
    async () => async () => undefined,
  ]) {
    const other = keysWith(load);
    await other.ask();
    await new Promise(setImmediate);
    expect((await other.ask()).blockSize).toBeUndefined();
    expect(other.notes).toHaveLength(1);
  }
});

test("a reader that fails is logged once; its requests get keys from their text, and it is still ended", async () => {
  const end = vi.fn();
  const failing = Object.assign(async () => Promise.reject(new TypeError("no function")), { end });
  const { keys, ask, notes } = keysWith(async () => failing);
  await ask();
  for (let i = 0; i < 3; i++) expect((await ask()).blockSize).toBeUndefined();
  expect(notes).toEqual(["routed by tokens", "routed by text: a prompt could not be read"]);
  keys.forget(spec.name);
  expect(end).toHaveBeenCalledOnce();
});

test("the tokenizer of a reconfigured model is loaded again, whatever the outcome of the old one", async () => {
  let finish: (reader: PromptReader) => void = () => {};
  let numLoads = 0;
  const { keys, ask } = keysWith(() => {
    numLoads++;
    return new Promise((resolve) => {
      finish = resolve;
    });
  });
  await ask();
  const finishOld = finish;
  keys.forget(spec.name);
  await ask();
  finishOld(read);
  await Promise.resolve();
  expect([(await ask()).blockSize, numLoads]).toEqual([undefined, 2]);
  finish(read);
  await Promise.resolve();
  expect((await ask()).blockSize).toBe(8);
});

test("the tokenizer of a removed model is ended", async () => {
  const end = vi.fn();
  const { keys, ask } = keysWith(async () =>
    Object.assign((...asked: Parameters<PromptReader>) => read(...asked), { end }),
  );
  await ask();
  await new Promise(setImmediate);
  expect((await ask()).blockSize).toBe(8);
  expect(end).not.toHaveBeenCalled();
  keys.forget(spec.name);
  expect(end).toHaveBeenCalledOnce();
});
