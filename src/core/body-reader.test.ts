/** Bodies as JSON, the large ones by way of their thread: what comes out is what JSON.parse gives, or a refusal that names the bound. */
import { describe, expect, test, vi } from "vitest";
import { readBody } from "./body-reader.js";
import { LARGE_BODY_BYTES, MAX_JSON_ESCAPES, MAX_JSON_MARKS, shapeOf } from "./json-body.js";

const MANY = MAX_JSON_MARKS + 1;
const bytesOf = (value: unknown): Buffer => Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
const LONG = 'é日\n"\\ x'.repeat(LARGE_BODY_BYTES / 8);

test.each([
  ["small", { a: [1, { b: "}{][,:" }], 日: null }],
  ["large", { a: [1, { b: LONG }], __proto: { c: LONG } }],
  ["large, with a list of few ids", { text: LONG, prompt: [1, 2, 3] }],
])("a body that is %s is what JSON.parse gives, and its bytes are as they were", async (_, value) => {
  const { body, bytes } = await readBody(bytesOf(value));
  expect(body).toEqual(value);
  expect(bytes).toEqual(bytesOf(value));
});

test("bytes that are a part of others leave those alone", async () => {
  const whole = Buffer.from(`xx${JSON.stringify({ a: LONG })}`);
  await readBody(whole.subarray(2));
  expect(whole.subarray(0, 3).toString()).toBe("xx{");
});

describe("long lists of ids", () => {
  const ids = Array.from({ length: MANY }, (_, i) => i - 5);

  test.each(["prompt", "input", "tokens"])("come as one piece of memory: %s", async (field) => {
    const { body } = await readBody(bytesOf({ n: 1, [field]: ids, last: "x" }));
    expect(body).toEqual({ n: 1, [field]: Int32Array.from(ids), last: "x" });
  });

  test("come one by one where there are several", async () => {
    const { body } = await readBody(bytesOf({ prompt: [ids, [], [7]] }));
    expect(body).toEqual({ prompt: [Int32Array.from(ids), new Int32Array(), Int32Array.of(7)] });
  });

  test.each([
    ["where no field takes them", { stop: ids }],
    ["that are fractions", { prompt: ids.map((id) => id + 0.5) }],
    ["that are too large", { prompt: ids.map((id) => id * 2 ** 31) }],
    ["among others", { prompt: [...ids, "x"] }],
  ])("are parts like others %s", async (_, value) => {
    await expect(readBody(bytesOf(value))).rejects.toMatchObject({ code: "invalid_json", status: 400 });
  });
});

test.each([
  ["empty objects", `{"a":[${Array(MANY).fill("{}").join(",")}]}`],
  ["names", JSON.stringify(Object.fromEntries(Array.from({ length: MANY }, (_, i) => [`k${i}`, 1])))],
  ["strings", JSON.stringify({ a: Array(MANY).fill("x") })],
  ["numbers and what is beside them", `{"a":[${Array(MANY).fill("1,[]").join(",")}]}`],
])("too many parts are refused before they are parsed: %s", async (_, text) => {
  const parse = vi.spyOn(JSON, "parse");
  const refusal = {
    code: "invalid_json",
    message: expect.stringContaining(`expected JSON with at most ${MAX_JSON_MARKS}`),
  };
  await expect(readBody(bytesOf(text))).rejects.toMatchObject(refusal);
  expect(parse).not.toHaveBeenCalled();
  parse.mockRestore();
});

test.each([
  ["that nests too deeply", `{"a":${"[".repeat(LARGE_BODY_BYTES)}`, "nested at most 64 deep"],
  ["that is no JSON", `{"a":"${LONG}`, "text that does not parse"],
  ["that is a list", JSON.stringify([LONG]), "got an array"],
  [
    "with more escapes than a main thread takes apart",
    `{"a":"${"\\n".repeat(MAX_JSON_ESCAPES + 1)}"}`,
    "2097152 escapes",
  ],
  ["that is not UTF-8", Buffer.concat([bytesOf({ a: LONG }), Buffer.of(0xff)]), "bytes that are not UTF-8"],
])("a large body %s is refused as a small one is", async (_, given, problem) => {
  const bytes = typeof given === "string" ? Buffer.from(given) : given;
  await expect(readBody(bytes)).rejects.toMatchObject({
    code: "invalid_json",
    message: expect.stringContaining(problem),
  });
});

test("several at once each get their own", async () => {
  const read = await Promise.all([1, 2, 3].map((n) => readBody(bytesOf({ n, text: LONG }))));
  expect(read.map(({ body }) => body.n)).toEqual([1, 2, 3]);
});

test("marks are counted outside of strings, commas behind numbers in lists apart", () => {
  const shape = shapeOf(bytesOf('{"a\\",[":[1, 2 ,"x,{",3.5],"b":{"c":1,"d":[[1],2]}}'));
  expect(shape).toEqual({ isTooDeep: false, numMarks: 15, numNumberCommas: 2, numEscapes: 1 });
});
