/** /v1/embeddings: all kinds of input and output, with the official client if it supports them. */
import OpenAI, { BadRequestError } from "openai";
import { afterEach, describe, expect, it, vi } from "vitest";
import { fakePooled } from "../../../test/helpers/fake-engine.js";
import { type FakeServer, fakeAppOptions, startFakeServer } from "../../../test/helpers/fake-server.js";
import { BOS_ID, fakeTokenizer } from "../../../test/helpers/fake-tokenizer.js";
import { f16ToNumber } from "../../formats/dequantize.js";
import { createApp } from "../app.js";

let fake: FakeServer | undefined;

async function connect() {
  fake = await startFakeServer({ maxModelLen: 100 });
  return new OpenAI({ baseURL: `${fake.server.url}/v1`, apiKey: "secret", maxRetries: 0 });
}

afterEach(async () => {
  expect(fake?.engine.numLive ?? 0).toBe(0);
  await fake?.server.close();
  fake = undefined;
});

const idsOf = (text: string) => [BOS_ID, ...Buffer.from(text)];

function unitVector(promptIds: readonly number[], numDimensions = 8): number[] {
  const kept = [...fakePooled(promptIds)].slice(0, numDimensions);
  const length = Math.sqrt(kept.reduce((sum, value) => sum + value * value, 0));
  return kept.map((value) => Math.fround(value / length));
}

describe("embeddings", () => {
  it("have length 1, and are the same as numbers and as base64", async () => {
    const client = await connect();
    const request = { model: "fake", input: "a text" };
    // By default the client requests base64 and decodes it.
    const decoded = await client.embeddings.create(request);
    const floats = await client.embeddings.create({ ...request, encoding_format: "float" });
    expect(decoded).toEqual(floats);
    expect(floats).toEqual({
      object: "list",
      data: [{ object: "embedding", index: 0, embedding: unitVector(idsOf("a text")) }],
      model: "fake",
      usage: { prompt_tokens: 7, total_tokens: 7 },
    });
    const length = Math.hypot(...(floats.data[0]?.embedding ?? []));
    expect(length).toBeCloseTo(1, 6);
    expect(fake?.engine.submitted[0]).toMatchObject({ pooling: "mean", sampling: { maxTokens: 0 } });
  });

  it("keep the model's length where vLLM's use_activation is false", async () => {
    const app = createApp(fakeAppOptions().options);
    const post = async (fields: object) => {
      const body = JSON.stringify({ input: [5, 6, 7], ...fields });
      return (await (await app.request("/v1/embeddings", { method: "POST", body })).json()) as {
        data: { embedding: number[] }[];
        error: object;
      };
    };
    const neutral = { use_activation: false, padding: "do_not_pad", embed_dtype: "float32", endianness: "little" };
    const { data } = await post({ ...neutral, dimensions: 3 });
    expect(data[0]!.embedding).toEqual([...fakePooled([5, 6, 7])].slice(0, 3).map(Math.fround));
    for (const [param, value] of Object.entries({ padding: "max_length", messages: [] })) {
      expect((await post({ [param]: value })).error).toMatchObject({ code: "unsupported_field", param });
    }
  });

  it("have vLLM's types of numbers in base64, in either order of bytes", async () => {
    const app = createApp(fakeAppOptions().options);
    const floats = unitVector([5, 6, 7]);
    const bytesOf = async (fields: object) => {
      const body = JSON.stringify({ input: [5, 6, 7], encoding_format: "base64", ...fields });
      const response = await app.request("/v1/embeddings", { method: "POST", body });
      const { data } = (await response.json()) as { data: { embedding: string }[] };
      return Buffer.from(data[0]!.embedding, "base64");
    };
    // Bits of relative precision: 24, 11 and 8, half of the last one for rounding.
    for (const [embed_dtype, size, error] of [
      ["float32", 4, 0],
      ["float16", 2, 2 ** -11],
      ["bfloat16", 2, 2 ** -8],
    ] as const) {
      const bytes = await bytesOf({ embed_dtype });
      expect(bytes.length).toBe(size * floats.length);
      const read = (index: number) => {
        if (embed_dtype === "float32") return bytes.readFloatLE(index * size);
        const bits = bytes.readUInt16LE(index * size);
        if (embed_dtype === "float16") return f16ToNumber(bits);
        const widened = Buffer.alloc(4);
        widened.writeUInt16LE(bits, 2);
        return widened.readFloatLE();
      };
      for (const [index, value] of floats.entries()) {
        expect(Math.abs(read(index) - value)).toBeLessThanOrEqual(error * Math.abs(value));
      }
      const big = await bytesOf({ embed_dtype, endianness: "big" });
      expect(size === 4 ? big.swap32() : big.swap16()).toEqual(bytes);
    }
    const body = JSON.stringify({ input: "a", embed_dtype: "fp8_e4m3" });
    const refused = await app.request("/v1/embeddings", { method: "POST", body });
    expect(await refused.json()).toMatchObject({ error: { code: "invalid_parameter", param: "embed_dtype" } });
  });

  it.each<[string, string | string[] | number[] | number[][], number[][]]>([
    ["texts", ["ab", "c"], [idsOf("ab"), idsOf("c")]],
    ["ids", [5, 6, 7], [[5, 6, 7]]],
    ["lists of ids", [[5, 6], [7]], [[5, 6], [7]]],
  ])("accept %s", async (_, input, prompts) => {
    const client = await connect();
    const answer = await client.embeddings.create({ model: "fake", input });
    expect(answer.data.map(({ embedding }) => embedding)).toEqual(prompts.map((ids) => unitVector(ids)));
    expect(answer.data.map(({ index }) => index)).toEqual(prompts.map((_ids, index) => index));
    expect(answer.usage.prompt_tokens).toBe(prompts.flat().length);
  });

  it("are truncated to the requested dimensions and normalised again", async () => {
    const client = await connect();
    const answer = await client.embeddings.create({ model: "fake", input: "ab", dimensions: 3 });
    expect(answer.data[0]?.embedding).toEqual(unitVector(idsOf("ab"), 3));
  });

  it.each<[object, string, string]>([
    [{ input: "" }, "empty_prompt", "input"],
    [{ input: ["a", ""] }, "empty_prompt", "input[1]"],
    [{ input: [300] }, "token_out_of_range", "input"],
    [{ input: "a".repeat(100) }, "context_length_exceeded", "input"],
    [{ input: new Array(101).fill(1) }, "context_length_exceeded", "input"],
    [{ input: 5 }, "invalid_parameter", "input"],
    [{ input: "a", dimensions: 9 }, "invalid_parameter", "dimensions"],
    [{ input: "a", encoding_format: "int8" }, "invalid_parameter", "encoding_format"],
    [{ input: "a", colour: 1 }, "unknown_field", "colour"],
  ])("refuse %j", async (fields, code, param) => {
    const client = await connect();
    const create = client.embeddings.create({ model: "fake", ...fields } as OpenAI.EmbeddingCreateParams);
    const error = await create.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ code, param });
  });
});

it("of a long list leave others their turn, and ids are not decoded", async () => {
  const decode = vi.fn(fakeTokenizer.decode);
  const { options } = fakeAppOptions({ info: { embeddingWidth: 4096 } }, { tokenizer: { ...fakeTokenizer, decode } });
  let [numTurns, isOver] = [0, false];
  const turning = (async () => {
    for (; !isOver; numTurns++) await new Promise(setImmediate);
  })();
  const input = Array.from({ length: 400 }, () => [5, 6, 7]);
  const request = { method: "POST", body: JSON.stringify({ input }) };
  const answer = await createApp(options).request("/v1/embeddings", request);
  isOver = true;
  await turning;
  expect(((await answer.json()) as { data: object[] }).data).toHaveLength(input.length);
  // Writing 400 vectors takes a second, in turns of a few milliseconds.
  expect(numTurns).toBeGreaterThan(20);
  expect(decode).not.toHaveBeenCalled();
});
