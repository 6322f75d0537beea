/** Above `debug`, the log contains no text from clients, whichever field holds it. */
import { expect, test } from "vitest";
import { fakeAppOptions } from "../../test/helpers/fake-server.js";
import { createApp } from "./app.js";
import type { AppOptions } from "./http/context.js";

const MARK = "ZEBRA";
const PATHS = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/responses",
  "/v1/messages",
  "/v1/embeddings",
  "/tokenize",
];

const tool = {
  type: "function",
  function: { name: MARK, parameters: { type: "object", properties: { [MARK]: { type: MARK } } } },
};
const said = [{ role: "user", content: MARK }];
const base = { messages: said, prompt: MARK, input: MARK, max_tokens: 4 };
const schema = { type: "object", properties: { [MARK]: { not: { const: MARK } } }, [MARK]: 1 };

const BODIES: readonly (object | string)[] = [
  base,
  `{"messages": ${MARK}`,
  `"${MARK}"`,
  { ...base, [MARK]: 1 },
  { ...base, model: MARK },
  { ...base, messages: [{ role: MARK, content: MARK, [MARK]: 1 }] },
  { ...base, messages: [{ role: "user", content: [{ type: MARK }] }] },
  { ...base, temperature: MARK },
  { ...base, stop: { [MARK]: MARK } },
  { ...base, tools: [tool] },
  { ...base, tools: [tool], tool_choice: { type: "function", function: { name: `${MARK}2` } } },
  { ...base, response_format: { type: MARK } },
  { ...base, response_format: { type: "json_schema", json_schema: { name: MARK, schema } } },
  { ...base, guided_regex: `(${MARK}` },
  { ...base, structured_outputs: { grammar: `root ::= ${MARK}` } },
  { ...base, structured_outputs: { regex: `(${MARK}` } },
  { ...base, structured_outputs: { [MARK]: 1 } },
  { ...base, cache_salt: [MARK] },
  { ...base, logit_bias: { [MARK]: 1 } },
  { ...base, stream_options: { [MARK]: 1 }, stream: true },
  { ...base, priority: MARK },
];

async function linesOf(overrides: Partial<AppOptions>): Promise<readonly unknown[]> {
  const { options, lines } = fakeAppOptions({}, overrides);
  const app = createApp(options);
  const mark = { "content-type": MARK, origin: `http://${MARK}.example`, "x-api-key": MARK, cookie: MARK };
  for (const path of PATHS) {
    for (const body of BODIES) {
      const text = typeof body === "string" ? body : JSON.stringify(body);
      await (await app.request(path, { method: "POST", body: text, headers: mark })).text();
    }
  }
  for (const path of [`/${MARK}`, `/v1/models/${MARK}`, `/v1/${MARK}?${MARK}`]) {
    for (const method of ["GET", "PATCH"]) await (await app.request(path, { method, headers: mark })).text();
  }
  return lines;
}

const failing = () => {
  throw new TypeError(`Cannot read ${MARK}\n    at ${MARK}`);
};

test.each<[string, Partial<AppOptions>]>([
  ["as it is", {}],
  ["with keys", { apiKeys: ["a", "b"] }],
  ["for its own pages alone", { pages: { origins: [], refusesOthers: true, listensOn: "127.0.0.1" } }],
  ["where unknown fields are ignored", { unknownFields: "warn" }],
  ["with a defect", { chatTemplate: { render: failing } }],
])("%s", async (_, overrides) => {
  const lines = (await linesOf(overrides)) as readonly { readonly level: string }[];
  const kept = lines.filter(({ level }) => level !== "debug").map((line) => JSON.stringify(line));
  expect(kept.length).toBeGreaterThan(10);
  expect(kept.filter((line) => line.toUpperCase().includes(MARK))).toEqual([]);
  // At `debug` level, the text is in the log.
  expect(JSON.stringify(lines.filter(({ level }) => level === "debug"))).toContain(MARK);
});
