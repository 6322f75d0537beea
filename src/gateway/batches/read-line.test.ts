import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { membersOf, parsed } from "../json-members.js";
import { LineError, type LineTerms, readLine } from "./read-line.js";

const terms = (kind: LineTerms["kind"] = "openai"): LineTerms => ({
  kind,
  endpoint: "/v1/chat/completions",
  caller: { tenant: "t" },
  modelOf: ({ model }) => {
    if (model === "m") return "m";
    throw new MillraceError("model_not_found", "expected the model to be m, got another");
  },
});

const line = { custom_id: "a", method: "POST", url: "/v1/chat/completions", body: { model: "m", messages: [] } };

const codeOf = async (text: string | Buffer, kind: LineTerms["kind"] = "openai") => {
  const thrown = await readLine(Buffer.from(text as string), terms(kind)).catch((error: unknown) => error);
  return thrown instanceof LineError ? thrown.code : thrown;
};

test("a line's body is sent as it came", async () => {
  const text = '{"custom_id":"ü","method":"POST","url":"/v1/chat/completions","body": {"model": "m" , "x": 1.0}}';
  const { customId, bytes, body, model } = await readLine(Buffer.from(text), terms());
  expect({ customId, body, model }).toEqual({ customId: "ü", body: { model: "m", x: 1 }, model: "m" });
  expect(bytes.toString()).toBe('{"model": "m" , "x": 1.0}');
});

describe("hostile lines", () => {
  test.each([
    ["no JSON", "hello", "invalid_json_line"],
    ["an array", "[]", "invalid_json_line"],
    ["half an object", JSON.stringify(line).slice(0, -1), "invalid_json_line"],
    ["text behind the object", `${JSON.stringify(line)} x`, "invalid_json_line"],
    ["a member twice", '{"custom_id":"a","custom_id":"b"}', "invalid_json_line"],
    ["bytes that are no UTF-8 in its id", Buffer.from('{"custom_id":"\xff"}', "latin1"), "invalid_json_line"],
    ["no id", '{"method":"POST"}', "missing_custom_id"],
    ["a number as id", JSON.stringify({ ...line, custom_id: 1 }), "invalid_custom_id"],
    ["an empty id", JSON.stringify({ ...line, custom_id: "" }), "invalid_custom_id"],
    ["an id of 20 KB", JSON.stringify({ ...line, custom_id: "x".repeat(20_000) }), "invalid_custom_id"],
    ["another method", JSON.stringify({ ...line, method: "GET" }), "invalid_method"],
    ["another url", JSON.stringify({ ...line, url: "/v1/completions" }), "url_mismatch"],
    ["no body", JSON.stringify({ ...line, body: undefined }), "missing_body"],
    ["a text as body", JSON.stringify({ ...line, body: "x" }), "invalid_body"],
    ["a body that is no JSON", JSON.stringify(line).replace("[]", "[1 2]"), "invalid_body"],
    [
      "a body nested 100,000 deep",
      JSON.stringify(line).replace("[]", "[".repeat(100_000) + "]".repeat(100_000)),
      "invalid_body",
    ],
    ["a stream", JSON.stringify({ ...line, body: { ...line.body, stream: true } }), "stream_unsupported"],
    ["another model", JSON.stringify({ ...line, body: { model: "n" } }), "model_not_found"],
  ])("%s", async (_, text, code) => {
    expect(await codeOf(text)).toBe(code);
  });

  test("Anthropic's ids have few characters, and answers at least one token", async () => {
    const request = { custom_id: "a", params: { model: "m", max_tokens: 1 } };
    expect(await codeOf(JSON.stringify({ ...request, custom_id: "a b" }), "anthropic")).toBe("invalid_custom_id");
    expect(await codeOf(JSON.stringify({ ...request, params: { model: "m", max_tokens: 0 } }), "anthropic")).toBe(
      "invalid_body",
    );
    expect(await readLine(Buffer.from(JSON.stringify(request)), terms("anthropic"))).toMatchObject({ customId: "a" });
  });
});

test("members are what JSON.parse finds, whatever stands between them", () => {
  const space = fc.constantFrom("", " ", "\t", "  ");
  const name = fc.string({ unit: "grapheme", maxLength: 10 }).filter((text) => text !== "__proto__");
  fc.assert(
    fc.property(
      fc.uniqueArray(name, { maxLength: 6 }),
      fc.array(fc.jsonValue(), { minLength: 6, maxLength: 6 }),
      space,
      (names, values, gap) => {
        const members = names.map(
          (each, i) => `${gap}${JSON.stringify(each)}${gap}:${gap}${JSON.stringify(values[i])}${gap}`,
        );
        const bytes = Buffer.from(`${gap}{${members.join(",")}}${gap}`);
        const found = [...membersOf(bytes)].map(([each, range]) => [each, parsed(bytes, range)]);
        expect(found).toEqual(
          Object.entries(
            Object.fromEntries(names.map((each, i) => [each, JSON.parse(JSON.stringify(values[i]))])),
          ).sort((a, b) => names.indexOf(a[0]) - names.indexOf(b[0])),
        );
      },
    ),
  );
});

test("what JSON.parse takes for an object of this form, members of it take too; nothing crashes on damage", () => {
  const text = JSON.stringify(line);
  fc.assert(
    fc.property(fc.nat(text.length - 1), fc.nat(255), (at, byte) => {
      const bytes = Buffer.from(text);
      bytes[at] = byte;
      try {
        membersOf(bytes);
      } catch (thrown) {
        expect(thrown).toBeInstanceOf(MillraceError);
        expect(() => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))).toThrow();
      }
    }),
    { numRuns: 2000 },
  );
});
