/**
 * A gateway reads exactly the tokens that the server gives its engine, for every API and any other fields of the
 * request.
 */
import { describe, expect, test, vi } from "vitest";
import { thinkingTemplate, toolTemplate } from "../../test/helpers/chat-templates.js";
import { fakeAppOptions } from "../../test/helpers/fake-server.js";
import { AsyncTokenizer } from "../text/async-tokenizer.js";
import { createApp } from "./app.js";
import { seedsFrom } from "./generation/seeds.js";
import { createPromptReader, createRequestPlanner } from "./prompt-reader.js";

const nobody = { tenant: "" };
const user = { role: "user", content: "what do mills grind?" };
const tool = { type: "function", function: { name: "look_up", parameters: { type: "object", properties: {} } } };
const flatTool = { type: "function", name: "look_up", parameters: { type: "object", properties: {} } };

const REQUESTS: readonly (readonly [path: string, body: Record<string, unknown>])[] = [
  ["/v1/chat/completions", { messages: [user], max_tokens: 3, temperature: 0.5, cache_salt: "salt" }],
  [
    "/v1/chat/completions",
    { messages: [{ role: "developer", content: "Be brief." }, user, { role: "assistant", content: "Grain" }] },
  ],
  ["/v1/chat/completions", { messages: [user], add_generation_prompt: false, add_special_tokens: true }],
  ["/v1/chat/completions", { messages: [user], tools: [tool], reasoning_effort: "none" }],
  ["/v1/chat/completions", { messages: [user], tools: [tool], tool_choice: "required", user: "somebody" }],
  ["/v1/chat/completions", { messages: [user], response_format: { type: "json_object" } }],
  ["/v1/completions", { prompt: "The mill stood", n: 2 }],
  ["/v1/completions", { prompt: [5, 6, 7, 8], add_special_tokens: false }],
  ["/v1/completions", { prompt: ["one", "two"], cache_salt: "s" }],
  ["/v1/responses", { input: "what do mills grind?", instructions: "Be brief." }],
  ["/v1/responses", { input: "what do mills grind?", cache_salt: "salt" }],
  [
    "/v1/responses",
    { input: [user], tools: [flatTool], text: { format: { type: "json_object" } }, tool_choice: "none" },
  ],
  ["/v1/messages", { messages: [user], system: "Be brief.", max_tokens: 4 }],
  ["/v1/messages", { messages: [user], max_tokens: 4, cache_salt: "salt" }],
  ["/v1/messages", { messages: [user, { role: "assistant", content: "Grain" }], max_tokens: 4, stop_sequences: ["x"] }],
];

describe.each([
  ["tools", toolTemplate],
  ["thinking", thinkingTemplate],
])("template with %s", (_, chatTemplate) => {
  test.each(REQUESTS)("%s %j", async (path, body) => {
    const { engine, options } = fakeAppOptions({}, { chatTemplate });
    const read = await createPromptReader(options)(path, structuredClone(body), nobody);
    const response = await createApp(options).request(path, { method: "POST", body: JSON.stringify(body) });
    expect(response.status, await response.text()).toBe(200);
    const numChoices = (body.n as number | undefined) ?? 1;
    const submitted = engine.submitted.filter((_, i) => i % numChoices === 0);
    expect(read?.prompts.map((ids) => Array.from(ids))).toEqual(submitted.map(({ promptIds }) => [...promptIds]));
    expect([read?.salt, submitted[0]!.cacheSalt]).toEqual([body.cache_salt, body.cache_salt]);
  });

  test.each([
    { messages: [user], tools: [{ ...tool, function: { ...tool.function, strict: true } }], tool_choice: "required" },
    { messages: [user], response_format: { type: "json_object" }, temperature: 0.3, top_k: 7, max_tokens: 5, seed: 3 },
    { messages: [user], presence_penalty: 0.5, n: 2 },
  ])("a request that is planned without a server is the one that the server submits: %j", async (body) => {
    const samplingDefaults = { temperature: 0.7, top_p: 0.9 };
    const { engine, options } = fakeAppOptions({}, { chatTemplate, samplingDefaults, drawSeed: seedsFrom(0n) });
    const plan = createRequestPlanner({ ...options, samplingDefaults }, engine.info);
    const planned = await plan(structuredClone(body));
    const response = await createApp(options).request("/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify(body),
    });
    expect(response.status, await response.text()).toBe(200);
    expect(planned).toEqual(engine.submitted);
  });
});

test("a request that the server would refuse is refused with its error", async () => {
  const { engine, options } = fakeAppOptions();
  const plan = createRequestPlanner({ ...options, samplingDefaults: {} }, engine.info);
  await expect(plan({ messages: [user], temperature: 9 })).rejects.toThrow(/temperature/);
  await expect(plan({ messages: [user], max_tokens: 0 })).rejects.toThrow(/max_tokens/);
});

test("what the engine will refuse, or is no prompt, is not read", async () => {
  const read = createPromptReader(fakeAppOptions().options);
  expect(await read("/v1/chat/completions", { messages: "none" }, nobody)).toBeUndefined();
  expect(await read("/v1/chat/completions", { messages: [] }, nobody)).toBeUndefined();
  expect(await read("/v1/completions", { prompt: [99_999] }, nobody)).toBeUndefined();
  expect(await read("/tokenize", { prompt: "x" }, nobody)).toBeUndefined();
});

test("a fault of the program is no refusal", async () => {
  const { options } = fakeAppOptions();
  const asyncTokenizer = new AsyncTokenizer(options.tokenizer);
  const broken = () => Promise.reject(new TypeError("no function"));
  vi.spyOn(asyncTokenizer, "of").mockReturnValue({ encode: broken } as never);
  const read = createPromptReader({ ...options, asyncTokenizer });
  await expect(read("/v1/completions", { prompt: "x" }, nobody)).rejects.toThrow(TypeError);
});

test("a reader that is ended ends its tokenizer's thread", () => {
  const { options } = fakeAppOptions();
  const asyncTokenizer = new AsyncTokenizer(options.tokenizer);
  const end = vi.spyOn(asyncTokenizer, "end");
  createPromptReader({ ...options, asyncTokenizer }).end();
  expect(end).toHaveBeenCalledOnce();
});
