import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { computedMs } from "../../test/helpers/computed-ms.js";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { loadTextSide } from "../text/text-side.js";
import { auditPrompts } from "./audit.js";
import { bodyOf, lineOf, readRequests } from "./requests.js";
import { type Encode, estimate, totalsOf } from "./simulate.js";

const GUIDE = Array.from(
  { length: 40 },
  (_, i) => `Rule ${"abcdefghij"[i % 10]}${i}: answer briefly and name the source.`,
);
const tool = (name: string) => ({
  type: "function",
  function: {
    name,
    description: `Looks up ${name} by its key and returns it.`,
    parameters: { type: "object", properties: { key: { type: "string" } } },
  },
});
const TOOLS = ["orders", "parcels", "refunds", "weather", "stocks"].map(tool);
const PASSAGE = "The parcel was handed to the carrier and is on its way; the customer was told by mail. "
  .repeat(4)
  .trim();
const EXAMPLES = Array.from({ length: 8 }, (_, i) => [
  { role: "user", content: `Where is parcel ${i}?` },
  { role: "assistant", content: `It is in town ${i}.` },
]).flat();

/** Each line has the planted wastes that `plants` names. */
function lines(plants: ReadonlySet<string>, count = 60): string[] {
  return Array.from({ length: count }, (_, i) => {
    const has = (name: string): boolean => plants.has(name);
    const stamp = has("early differences")
      ? `Now: 2026-11-27T10:${String(i % 60).padStart(2, "0")}:07Z, request ${100_000 + i}\n`
      : "";
    const tools = has("shuffled tools") ? TOOLS.map((_, k) => TOOLS[(k + i) % TOOLS.length]!) : TOOLS;
    const data = {
      order: i,
      state: "sent",
      items: [
        { sku: `s${i}`, count: 2 },
        { sku: "b", count: 1 },
      ],
    };
    const json = has("indented JSON") ? JSON.stringify(data, null, 4) : JSON.stringify(data);
    const gaps = has("whitespace")
      ? `Notes:      none   \n\n\n\n\nCity:        Ulm    \n\n\n\n`
      : "Notes: none\n\nCity: Ulm\n\n";
    const twice = has("repeated passages") ? `${PASSAGE}\n\n${PASSAGE}` : PASSAGE;
    const answer = has("loose answers")
      ? `Of course! Here is the result you asked for:\n\`\`\`json\n{\n    "state": "sent",\n    "day": ${i}\n}\n\`\`\`\nAnything else?`
      : `Sent on day ${i}.`;
    const called = has("unused tools") ? ["orders", "parcels"] : TOOLS.map((each) => each.function.name);
    return JSON.stringify({
      request: {
        model: "m",
        messages: [
          { role: "system", content: `${stamp}${GUIDE.join("\n")}` },
          ...(has("many examples") ? EXAMPLES : []),
          { role: "user", content: `${twice}\n\n${gaps}${json}\nWhere is order ${i}?` },
        ],
        tools,
        ...(has("limits") ? {} : { max_tokens: 64 }),
      },
      response: {
        choices: [
          {
            message: {
              role: "assistant",
              content: answer,
              tool_calls: [{ function: { name: called[i % called.length]! } }],
            },
          },
        ],
        usage: { completion_tokens: 40 },
      },
    });
  });
}

function requestsOf(...plants: readonly string[]) {
  const path = join(tempTree({}), "requests.jsonl");
  writeFileSync(path, lines(new Set(plants)).join("\n"));
  return readRequests(path);
}

const PLANTS = [
  "early differences",
  "shuffled tools",
  "indented JSON",
  "whitespace",
  "loose answers",
  "limits",
  "repeated passages",
  "unused tools",
  "many examples",
] as const;

test("prompts without waste have none", () => {
  expect(auditPrompts(requestsOf(), estimate, undefined, 1).findings).toEqual([]);
});

test.each(PLANTS)("%s alone is found alone", (plant) => {
  const { findings } = auditPrompts(requestsOf(plant), estimate, undefined, 1);
  expect(findings.map(({ name }) => name)).toEqual([plant]);
});

test("all planted wastes are found, and each saving is that of an application without the waste, within 15 %", async () => {
  const { tokenizer, asyncTokenizer } = await loadTextSide(join(repositoryRoot(), "models/mill-base.gguf"));
  asyncTokenizer.end();
  const encode: Encode = (text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
  const { findings } = auditPrompts(requestsOf(...PLANTS), encode, { input: 2, cached: 0.2, output: 8 }, 1);
  expect(new Set(findings.map(({ name }) => name))).toEqual(new Set(PLANTS));
  const changed = {
    prompt: ["indented JSON", "whitespace", "repeated passages", "unused tools"],
    cached: ["early differences"],
  };
  for (const [figure, plants] of Object.entries(changed)) {
    for (const plant of plants) {
      // Plants one waste at a time, because another one would defeat the cache.
      const { findings: found, totals } = auditPrompts(requestsOf(plant), encode, undefined, 1);
      const without = totalsOf(
        plant === "unused tools"
          ? requestsOf().map((request) => ({ ...request, tools: request.tools.slice(0, 2) }))
          : requestsOf(),
        encode,
      );
      const key = figure as "prompt" | "cached";
      const real = key === "prompt" ? totals.prompt - without.prompt : without.cached - totals.cached;
      expect(Math.abs(found[0]!.saved[key] / real - 1)).toBeLessThan(0.15);
    }
  }
});

test("mends that change no content save what they promise, and written bodies are requests again", () => {
  const requests = requestsOf(...PLANTS);
  const { mended, dollars } = auditPrompts(requests, estimate, { input: 2, cached: 0.2, output: 8 }, 1000);
  expect(mended.dollars!).toBeLessThan(0.7 * dollars!);
  const path = join(tempTree({}), "mended.jsonl");
  writeFileSync(path, mended.requests.map((request) => JSON.stringify(bodyOf(request))).join("\n"));
  const again = readRequests(path);
  const { prompt, cached } = totalsOf(again, estimate);
  expect({ prompt, cached }).toEqual({ prompt: mended.totals.prompt, cached: mended.totals.cached });
  expect(bodyOf(again[0]!)).toMatchObject({ model: "m", response_format: { type: "json_object" } });
  expect(again[0]!.messages.at(-1)!.content).toMatch(/^Now: 2026-11-27T10:00:07Z/);
});

test("bodies of every kind are read; what is none is refused with its line", () => {
  const path = join(tempTree({}), "requests.jsonl");
  const messages = [
    { role: "user", content: [{ type: "text", text: "a" }, { type: "image_url" }, { type: "text", text: "b" }] },
  ];
  const written = [
    { messages },
    { custom_id: "1", body: { messages, system: "s", max_completion_tokens: 5 } },
    { request: { messages } },
  ];
  writeFileSync(path, `${written.map((each) => JSON.stringify(each)).join("\n\n")}\n`);
  const requests = readRequests(path);
  expect(requests.map(({ messages: all }) => all.map(({ content }) => content))).toEqual([["ab"], ["s", "ab"], ["ab"]]);
  expect(requests[1]!.maxTokens).toBe(5);
  expect(bodyOf(requests[1]!)).toEqual({ messages, system: "s", max_completion_tokens: 5 });
  expect(requests.map(lineOf)).toEqual([{ messages }, written[1], { messages }]);
  for (const broken of ["{", "[]", '{"messages":[]}', '{"messages":[{"role":1}]}', "7"]) {
    writeFileSync(path, `${JSON.stringify({ messages })}\n${broken}`);
    expect(() => readRequests(path)).toThrow(/line 2/);
  }
  expect(() => readRequests(path)).toThrow("line 2, got another line (expected an object, got 7)");
  writeFileSync(path, '{"messages":[{"role":"user","content":5}]}');
  expect(() => readRequests(path)).toThrow(/got another line \(messages\[0\]\.content: /);
  writeFileSync(path, "\n");
  expect(() => readRequests(path)).toThrow(/got none/);
});

/** The mended body of the last request. */
function mendedOf(...bodies: readonly object[]): Record<string, unknown> {
  const path = join(tempTree({}), "requests.jsonl");
  writeFileSync(path, bodies.map((body) => JSON.stringify(body)).join("\n"));
  const { mended } = auditPrompts(readRequests(path), estimate, undefined, 1);
  return bodyOf(mended.requests.at(-1)!) as Record<string, unknown>;
}

test("parts other than one text, long integers, repeated keys and columns come through", () => {
  const image = { type: "image_url", image_url: { url: "data:," } };
  const kept = { role: "user", content: [{ type: "text", text: "What is   \n\n\n\nthis?" }, image] };
  expect(mendedOf({ messages: [kept] }).messages).toEqual([kept]);
  const cached = { type: "text", text: "a   \n\n\n\nb", cache_control: { type: "ephemeral" } };
  expect(mendedOf({ system: [cached], messages: [kept] }).system).toEqual([{ ...cached, text: "a\n\nb" }]);
  const json = '{\n"id": 9007199254740993,\n"price": 1.0, "a":1,"a":"x  \\" y"\n}\nA\t\t\tB';
  expect(mendedOf({ messages: [{ role: "user", content: json }] }).messages).toEqual([
    { role: "user", content: '{"id":9007199254740993,"price":1.0,"a":1,"a":"x  \\" y"}\nA\t\t\tB' },
  ]);
});

test("limits never cut a recorded answer, and know nothing of calls without usage", () => {
  const ask = (system: string, message: object, tokens?: number) => ({
    messages: [
      { role: "system", content: system },
      { role: "user", content: "?" },
    ],
    max_tokens: 2000,
    response: { choices: [{ message }], ...(tokens === undefined ? {} : { usage: { completion_tokens: tokens } }) },
  });
  const short = Array.from({ length: 300 }, () => ask("classify", { content: "yes" }, 1));
  expect(mendedOf(...short).max_tokens).toBe(16);
  expect(mendedOf(...short, ask("write", { content: "" }, 1250)).max_tokens).toBe(2000);
  expect(mendedOf(...short, ask("classify", { content: "" }, 1250)).max_tokens).toBe(2000);
  const call = { content: null, tool_calls: [{ function: { name: "f", arguments: "x".repeat(400) } }] };
  expect(mendedOf(...short, ask("classify", call)).max_tokens).toBe(2000);
  expect(mendedOf(...Array.from({ length: 25 }, () => ask("call", call))).max_tokens).toBe(2000);
});

test("JSON is asked for where an object is within the words", () => {
  const ask = (content: string, more: object) => ({
    messages: [{ role: "user", content: "?" }],
    response: { choices: [{ message: { content } }] },
    ...more,
  });
  const text = { response_format: { type: "text" } };
  expect(mendedOf(ask('Sure: {"a": 1}', text)).response_format).toEqual({ type: "json_object" });
  expect(mendedOf(ask("Sure: [2, 3, 5, 7, 11]", text)).response_format).toEqual({ type: "text" });
});

test("fenced code keeps its form, but for JSON", () => {
  const path = join(tempTree({}), "requests.jsonl");
  const code = "```py\nx = {\n}\n\n\n\ny   =    1\n```";
  const content = `${code}\n\`\`\`json\n{\n  "a": 1\n}\n\`\`\`\n[\n1\n]\n{\nno JSON\n}`;
  writeFileSync(path, JSON.stringify({ messages: [{ role: "user", content }] }));
  const { mended } = auditPrompts(readRequests(path), estimate, undefined, 1);
  expect(mended.requests[0]!.messages[0]!.content).toBe(`${code}\n\`\`\`json\n{"a":1}\n\`\`\`\n[1]\n{\nno JSON\n}`);
});

test("hostile texts end in good time", () => {
  const long = [
    `${"[\n".repeat(20_000)}`,
    " ".repeat(200_000),
    `${"a1-".repeat(50_000)}`,
    "```".repeat(30_000),
    "{\n".repeat(50_000),
    "{\n}\n".repeat(50_000),
  ];
  const path = join(tempTree({}), "requests.jsonl");
  const bodies = long.flatMap((text, i) =>
    [0, 1].map((k) => ({
      messages: [
        { role: "system", content: `${text}${i}${k}` },
        { role: "user", content: text },
      ],
      response: { choices: [{ message: { content: text } }] },
    })),
  );
  writeFileSync(path, bodies.map((each) => JSON.stringify(each)).join("\n"));
  const start = computedMs();
  auditPrompts(readRequests(path), estimate, undefined, 1);
  expect(computedMs() - start).toBeLessThan(20_000);
});
