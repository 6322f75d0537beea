/** Bodies as JSON, large ones through their thread: the result equals JSON.parse's, or a refusal names the limit. */
import { describe, expect, test, vi } from "vitest";
import { readBody } from "./body-reader.js";
import { LARGE_BODY_BYTES, MAX_JSON_ESCAPES, MAX_JSON_MARKS, shapeOf } from "./json-body.js";

const MANY = MAX_JSON_MARKS + 1;
const bytesOf = (value: unknown): Buffer => Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
const read = (bytes: Uint8Array, idField: string | undefined = "prompt") =>
  readBody(bytes, { idField, tenant: "", onWait: () => {} });
const LONG = 'é日\n"\\ x'.repeat(LARGE_BODY_BYTES / 8);

test.each([
  ["small", { a: [1, { b: "}{][,:" }], 日: null }],
  ["large", { a: [1, { b: LONG }], __proto: { c: LONG } }],
  ["large, with a list of few ids", { text: LONG, prompt: [1, 2, 3] }],
])("a body that is %s is what JSON.parse gives, and its bytes are as they were", async (_, value) => {
  const { body, bytes } = await read(bytesOf(value));
  expect(body).toEqual(value);
  expect(bytes).toEqual(bytesOf(value));
});

test("bytes that are a part of others leave those alone", async () => {
  const whole = Buffer.from(`xx${JSON.stringify({ a: LONG })}`);
  await read(whole.subarray(2));
  expect(whole.subarray(0, 3).toString()).toBe("xx{");
});

describe("long lists of ids", () => {
  const ids = Array.from({ length: MANY }, (_, i) => i - 5);

  test.each([
    "prompt",
    "input",
    "tokens",
  ])("come as one piece of memory in the field that may hold them: %s", async (field) => {
    const { body } = await read(bytesOf({ n: 1, [field]: ids, last: "x" }), field);
    expect(body).toEqual({ n: 1, [field]: Int32Array.from(ids), last: "x" });
  });

  test("are refused in another field", async () => {
    await expect(read(bytesOf({ prompt: ids }), "input")).rejects.toMatchObject({ code: "invalid_json" });
  });

  test("are refused where no field may hold them", async () => {
    const origin = { tenant: "", onWait: () => {} };
    await expect(readBody(bytesOf({ prompt: ids }), origin)).rejects.toMatchObject({ code: "invalid_json" });
  });

  test("come one by one where there are several", async () => {
    const { body } = await read(bytesOf({ prompt: [ids, [], [7]] }));
    expect(body).toEqual({ prompt: [Int32Array.from(ids), new Int32Array(), Int32Array.of(7)] });
  });

  test.each([
    ["where no field takes them", { stop: ids }],
    ["that are fractions", { prompt: ids.map((id) => id + 0.5) }],
    ["that are too large", { prompt: ids.map((id) => id * 2 ** 31) }],
    ["among others", { prompt: [...ids, "x"] }],
  ])("are parts like others %s", async (_, value) => {
    await expect(read(bytesOf(value))).rejects.toMatchObject({ code: "invalid_json", status: 400 });
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
  await expect(read(bytesOf(text))).rejects.toMatchObject(refusal);
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
  await expect(read(bytes)).rejects.toMatchObject({
    code: "invalid_json",
    message: expect.stringContaining(problem),
  });
});

test("several at once each get their own", async () => {
  const all = await Promise.all([1, 2, 3].map((n) => read(bytesOf({ n, text: LONG }))));
  expect(all.map(({ body }) => body.n)).toEqual([1, 2, 3]);
});

describe("marks are counted outside of strings", () => {
  test("commas of lists that hold integers and nothing else apart", () => {
    const text = '{"a\\",[":[1, -2 ,3],"b":{"c":1.5,"d":[[1,10],2,3],"e":[]},"f":[1]}';
    expect(shapeOf(bytesOf(text))).toEqual({
      isTooDeep: false,
      numMarks: 22,
      numMembers: 6,
      numIdCommas: 3,
      numEscapes: 1,
    });
  });

  test.each([
    "0.5",
    "1e5",
    "1E5",
    '"x"',
    "null",
    "true",
    "[1]",
    "{}",
    "1,2.5",
  ])("all commas of a list with %s among its integers", (other) => {
    for (const list of [`${other},1,2`, `1,${other},2`, `1,2,${other}`]) {
      expect(shapeOf(bytesOf(`{"a":[${list}],"b":[3,4]}`)).numIdCommas).toBe(1);
    }
  });

  test("no further than to the mark that is one too many, or to what shows that a long list has no ids", () => {
    const ones = Array(2 * MANY).fill(1);
    const numSeen = (value: object) => shapeOf(bytesOf(value), MAX_JSON_MARKS).numMarks;
    expect(numSeen({ a: Array(2 * MANY).fill("x") })).toBe(MANY);
    expect(numSeen({ a: [0.5, ...ones] })).toBe(MANY);
    expect(numSeen({ a: [...ones, 0.5, ...ones] })).toBe(3 + ones.length + 1);
    expect(numSeen({ a: [...ones, 5, ...ones] })).toBe(3 + 2 * ones.length);
  });
});

describe("a member that occurs twice", () => {
  const ids = JSON.stringify(Array.from({ length: MANY }, (_, i) => i));

  test.each([
    ["at the top", '{"model":"a","model":"b"}'],
    ["by an escape", '{"model":"a","m\\u006fdel":"b"}'],
    ["inside", '{"messages":[{"role":"user","content":"a","content":"b"}]}'],
    ["called __proto__", '{"__proto__":{},"__proto__":{}}'],
    ["in a large body", `{"model":"a","text":${JSON.stringify(LONG)},"model":"b"}`],
    ["beside a long list of ids", `{"model":"a","prompt":${ids},"model":"b"}`],
    ["as a long list of ids", `{"prompt":"a","prompt":${ids}}`],
  ])("%s is refused", async (_, text) => {
    const error = { code: "invalid_json", message: expect.stringContaining("got one twice") };
    await expect(read(bytesOf(text))).rejects.toMatchObject(error);
  });

  test("is one in the same object only", async () => {
    const body = { a: { a: [{ a: 1 }, { a: "a:a" }] }, __proto: 1, b: { a: null } };
    expect((await read(bytesOf(body))).body).toEqual(body);
  });
});
