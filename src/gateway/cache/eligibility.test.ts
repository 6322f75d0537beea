import { describe, expect, test } from "vitest";
import { routeOf } from "../api/routes.js";
import { canonicalJson } from "./canonical-json.js";
import { directivesOf, tagsOf } from "./directives.js";
import { type AnswerRules, ineligible } from "./eligibility.js";

const CHAT = "/v1/chat/completions";
const own: AnswerRules = { isOwnEngine: true, assumesDeterministic: false, keepsSampled: false };
const other: AnswerRules = { ...own, isOwnEngine: false };
const trusted: AnswerRules = { ...other, assumesDeterministic: true };

const why = (body: Readonly<Record<string, unknown>>, rules = own, path = CHAT) =>
  ineligible({ path, route: routeOf(path)!, body }, rules, canonicalJson(body).text!);

describe("an answer is a function of its request", () => {
  test.each([
    ["greedy", { temperature: 0 }, own, CHAT, undefined],
    ["greedy enough for our engine", { temperature: 0.000001 }, own, CHAT, undefined],
    ["… and not for others", { temperature: 0.000001 }, trusted, CHAT, "sampled"],
    ["sampled", { temperature: 0.7 }, own, CHAT, "sampled"],
    ["drawn by XTC", { temperature: 0, xtc_probability: 0.5 }, own, CHAT, "sampled"],
    ["drawn at a dynamic temperature", { temperature: 0, dynatemp_range: 1 }, own, CHAT, "sampled"],
    ["… which are off", { temperature: 0, xtc_probability: 0, dynatemp_range: null }, own, CHAT, undefined],
    ["drawn by XTC with a seed", { temperature: 0, xtc_probability: 0.5, seed: 1 }, own, CHAT, undefined],
    ["sampled by the model's default", {}, own, CHAT, "sampled"],
    ["seeded", { temperature: 0.7, seed: 1 }, own, CHAT, undefined],
    ["a seed that is none", { temperature: 0.7, seed: null }, own, CHAT, "sampled"],
    ["a seed where there are none", { seed: 1 }, own, "/v1/messages", "sampled"],
    ["greedy messages", { temperature: 0 }, own, "/v1/messages", undefined],
    ["greedy responses", { temperature: 0 }, own, "/v1/responses", undefined],
    ["nothing generated", { max_tokens: 0, echo: true }, own, "/v1/completions", undefined],
    ["vectors", { input: "a" }, own, "/v1/embeddings", undefined],
    ["ranks", { query: "a" }, own, "/v1/rerank", undefined],
    ["vectors of another engine", { input: "a" }, other, "/v1/embeddings", "engine"],
    ["another engine", { temperature: 0 }, other, CHAT, "engine"],
    ["another engine, by the operator's word", { temperature: 0 }, trusted, CHAT, undefined],
    ["sampled, by the operator's choice", { temperature: 1 }, { ...other, keepsSampled: true }, CHAT, undefined],
    ["kept elsewhere", { temperature: 0, store: true }, trusted, CHAT, "state"],
    ["kept elsewhere, which ours ignores", { temperature: 0, store: true }, own, CHAT, undefined],
    ["a conversation", { temperature: 0, conversation: "c" }, own, "/v1/responses", "state"],
    ["goes on", { temperature: 0, previous_response_id: "r" }, own, "/v1/responses", "state"],
    ["a stored prompt", { temperature: 0, prompt: { id: "p" } }, trusted, "/v1/responses", "state"],
    ["in the background", { temperature: 0, background: true }, trusted, "/v1/responses", "state"],
    ["not in the background", { temperature: 0, background: false }, trusted, "/v1/responses", undefined],
    ["searches", { temperature: 0, tools: [{ type: "web_search" }] }, trusted, "/v1/responses", "outside"],
    ["functions", { temperature: 0, tools: [{ type: "function" }, { name: "f" }] }, trusted, CHAT, undefined],
    [
      "an image elsewhere",
      { temperature: 0, messages: [{ content: [{ image_url: { url: "https://a" } }] }] },
      trusted,
      CHAT,
      "outside",
    ],
    [
      "an image in the request",
      { temperature: 0, messages: [{ content: [{ image_url: { url: "data:image/png" } }] }] },
      trusted,
      CHAT,
      undefined,
    ],
    [
      "text that looks like one",
      { temperature: 0, messages: [{ content: '"url":"https://a"' }] },
      trusted,
      CHAT,
      undefined,
    ],
    ["a file elsewhere", { temperature: 0, input: [{ file_id: "f" }] }, trusted, "/v1/responses", "outside"],
  ] as const)("%s", (_, body, rules, path, expected) => {
    expect(why(body, rules, path)).toBe(expected);
  });
});

test("cache-control is read as RFC 9111 has it", () => {
  const read = (header: string) => directivesOf({ "cache-control": header });
  const none = { noCache: false, noStore: false, onlyIfCached: false, maxAgeSeconds: undefined };
  expect(directivesOf({})).toEqual(none);
  expect(directivesOf({ pragma: "no-cache" })).toEqual({ ...none, noCache: true });
  expect(read("No-Cache, foo=1")).toEqual({ ...none, noCache: true });
  expect(read("no-store,only-if-cached")).toEqual({ ...none, noStore: true, onlyIfCached: true });
  expect(read('max-age = "60"')).toEqual({ ...none, maxAgeSeconds: 60 });
  for (const digits of ["2147483649", "99999999999", "9".repeat(4000)]) {
    expect(read(`max-age=${digits}`)).toEqual({ ...none, maxAgeSeconds: 2 ** 31 });
  }
  expect(read("max-age=soon")).toEqual({ ...none, maxAgeSeconds: 0 });
  expect(read("max-age")).toEqual({ ...none, maxAgeSeconds: 0 });
  expect(read("")).toEqual(none);
});

test("tags are few, short and plain", () => {
  expect(tagsOf({})).toEqual([]);
  expect(tagsOf({ "x-millrace-cache-tag": "doc:1, doc:2,doc:1" })).toEqual(["doc:1", "doc:2"]);
  for (const header of ["", "a b", "é", "a,".repeat(9), "a".repeat(129)]) {
    expect(() => tagsOf({ "x-millrace-cache-tag": header }), header).toThrow(/expected x-millrace-cache-tag/);
  }
});
