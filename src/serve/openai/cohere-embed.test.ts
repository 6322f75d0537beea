/** Cohere's embedding API, in front of a real encoder. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { type Served, serve } from "../../../test/helpers/served-folder.js";

interface Answer {
  readonly texts: readonly string[];
  readonly response_type: string;
  readonly embeddings: { readonly base64: readonly string[] } & Readonly<
    Record<"float" | "int8" | "uint8" | "binary" | "ubinary", readonly (readonly number[])[]>
  >;
  readonly meta: { readonly api_version: { version: string }; readonly tokens: { readonly input_tokens: number } };
  readonly error?: { readonly message: string };
}

describe("POST /v2/embed", () => {
  let served: Served;
  beforeAll(async () => {
    served = await serve(fixture("hf-texts/xlm_roberta"));
  });
  afterAll(() => served.close());
  const embed = async (body: object) => (await served.post<Answer>("/v2/embed", body)).body;
  const plain = async (body: object) => {
    const answer = await served.post<{ data: { embedding: number[] }[] }>("/v1/embeddings", body);
    return answer.body.data.map(({ embedding }) => embedding);
  };

  it("gives the vectors of /v1/embeddings, as floats unless types are asked for", async () => {
    const texts = ["a tower", "a long wall"];
    const answer = await embed({ model: "m", texts, truncate: "NONE" });
    expect(answer.embeddings).toEqual({ float: await plain({ input: texts }) });
    expect(answer).toMatchObject({
      texts,
      response_type: "embeddings_by_type",
      meta: { api_version: { version: "2" } },
    });
    expect(answer.meta.tokens.input_tokens).toBeGreaterThan(6);
    const inputs = [
      {
        content: [
          { type: "text", text: "a " },
          { type: "text", text: "tower" },
        ],
      },
    ];
    expect((await embed({ inputs })).embeddings.float[0]).toEqual(answer.embeddings.float[0]);
    expect((await embed({ texts, output_dimension: 8 })).embeddings.float).toEqual(
      await plain({ input: texts, dimensions: 8 }),
    );
  });

  it("writes each type of numbers", async () => {
    const types = ["float", "int8", "uint8", "binary", "ubinary", "base64"];
    const { embeddings } = await embed({ texts: ["a tower"], embedding_types: types });
    expect(Object.keys(embeddings)).toEqual(types);
    const [values, bytes] = [embeddings.float[0]!, embeddings.int8[0]!];
    const scale = 127 / Math.max(...values.map(Math.abs));
    expect(bytes).toEqual(values.map((value) => Math.round(value * scale)));
    expect(embeddings.uint8[0]).toEqual(bytes.map((value) => value + 128));
    const bits = values.map((value) => (value >= 0 ? "1" : "0")).join("");
    expect(embeddings.ubinary[0]!.map((byte) => byte.toString(2).padStart(8, "0")).join("")).toBe(bits);
    expect(embeddings.binary[0]).toEqual(embeddings.ubinary[0]!.map((byte) => byte - 128));
    const floats = Buffer.from(embeddings.base64[0]!, "base64");
    expect(values.map((_, index) => floats.readFloatLE(4 * index))).toEqual(values);
  });

  it("puts the model's prompt of that kind before texts", async () => {
    const of = async (type: string) => (await embed({ texts: ["a tower"], input_type: type })).embeddings.float;
    for (const type of ["search_query", "query"]) {
      expect(await of(type)).toEqual(await plain({ input: ["a tower"], prompt_name: "query" }));
    }
    expect(await of("search_document")).toEqual(await plain({ input: ["a tower"], prompt_name: "document" }));
    expect(await of("clustering")).toEqual(await plain({ input: ["a tower"] }));
  });

  it("cuts long texts at the side that is asked for, and leaves the tokens at both ends", async () => {
    const { body } = await served.post<{ tokens: number[] }>("/tokenize", { prompt: "one two three four five six" });
    const { tokens } = body;
    const most = { texts: ["one two three four five six"], max_tokens: 5 };
    const [first, last] = [tokens[0]!, tokens.at(-1)!];
    const ofIds = (ids: number[]) => plain({ input: [ids] });
    for (const asked of [most, { ...most, truncate: "END" }]) {
      expect((await embed(asked)).embeddings.float).toEqual(await ofIds([...tokens.slice(0, 4), last]));
    }
    const ofEnd = await embed({ ...most, truncate: "START" });
    expect(ofEnd.embeddings.float).toEqual(await ofIds([first, ...tokens.slice(-4)]));
    expect(ofEnd.meta.tokens.input_tokens).toBe(5);
    const long = await embed({ texts: ["word ".repeat(300)] });
    expect(long.meta.tokens.input_tokens).toBe(40);
  });

  it.each<[object, string, string | null]>([
    [{}, "invalid_parameter", "texts"],
    [{ texts: [] }, "invalid_parameter", "texts"],
    [{ texts: ["a"], inputs: [{ content: [{ type: "text", text: "a" }] }] }, "invalid_parameter", "inputs"],
    [{ inputs: [{ content: [{ type: "image_url" }] }] }, "invalid_parameter", "inputs[0].content[0].type"],
    [{ texts: ["a"], images: ["data:"] }, "unsupported_field", "images"],
    [{ texts: ["a", ""] }, "empty_prompt", "texts[1]"],
    [{ texts: ["a"], input_type: "nonexistent" }, "invalid_parameter", "input_type"],
    [{ texts: ["a"], input_type: "constructor" }, "invalid_parameter", "input_type"],
    [{ texts: ["a"], embedding_types: ["float", "int4"] }, "invalid_parameter", "embedding_types[1]"],
    [{ texts: ["a"], embedding_types: ["ubinary"], output_dimension: 12 }, "invalid_parameter", "embedding_types"],
    [{ texts: ["a"], output_dimension: 33 }, "invalid_parameter", "output_dimension"],
    [{ texts: ["word ".repeat(60)], truncate: "NONE" }, "context_length_exceeded", "texts[0]"],
    [{ texts: ["one two three four"], truncate: "NONE", max_tokens: 3 }, "invalid_parameter", "texts[0]"],
  ])("refuses %j", async (body, code, param) => {
    const { status, body: answer } = await served.post<Answer>("/v2/embed", body);
    expect(status).toBe(400);
    expect(answer.error).toMatchObject({ code, param });
  });
});
