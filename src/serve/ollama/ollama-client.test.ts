/** Ollama's own client, unchanged, in front of a fake engine with known answers. */
import { Ollama } from "ollama";
import { afterEach, describe, expect, it } from "vitest";
import { thinkingTemplate, toolTemplate } from "../../../test/helpers/chat-templates.js";
import type { FakeServer } from "../../../test/helpers/fake-server.js";
import { agent, CALL, startAnswering } from "../../../test/helpers/tool-agent.js";

let fake: FakeServer | undefined;

afterEach(async () => {
  expect(fake?.engine.numLive).toBe(0);
  await fake?.server.close();
});

async function connect(answer: (prompt: string) => string, chatTemplate = toolTemplate) {
  fake = await startAnswering(answer, chatTemplate);
  return new Ollama({ host: fake.server.url });
}

const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools = [{ type: "function", function: { name: "weather", description: "Weather", parameters } }];
const messages = [{ role: "user", content: "Paris?" }];
/** Each answer draws new ids for its calls. */
const withoutId = (call: object) => ({ ...call, id: "" });

describe("chats", () => {
  it("come whole and as a stream of the same text, with counts and times", async () => {
    const client = await connect(() => "Hello there.");
    const whole = await client.chat({ model: "fake:latest", messages });
    expect(whole).toMatchObject({
      model: "fake:latest",
      message: { role: "assistant", content: "Hello there." },
      done: true,
      done_reason: "stop",
      load_duration: 0,
    });
    expect(whole.eval_count).toBeGreaterThan(0);
    expect(whole.prompt_eval_count).toBeGreaterThan(0);
    expect(whole.total_duration).toBeGreaterThanOrEqual(whole.prompt_eval_duration + whole.eval_duration - 1);
    let text = "";
    let last: { done: boolean; eval_count: number } | undefined;
    for await (const part of await client.chat({ model: "fake", messages, stream: true })) {
      text += part.message.content;
      last = part;
    }
    expect(text).toBe("Hello there.");
    expect(last).toMatchObject({ done: true, done_reason: "stop", eval_count: whole.eval_count });
  });

  it("have the log-probabilities of their tokens, whole and streamed", async () => {
    const client = await connect(() => "Hello.");
    const asked = { model: "fake", messages, logprobs: true, top_logprobs: 2 };
    const whole = await client.chat(asked);
    const scored = whole.logprobs ?? [];
    expect(scored.map(({ token }) => token).join("")).toBe("Hello.");
    expect(scored[0]!.logprob).toBeLessThanOrEqual(0);
    expect(scored[0]!.top_logprobs).toHaveLength(2);
    const streamed: object[] = [];
    for await (const { logprobs = [] } of await client.chat({ ...asked, stream: true })) streamed.push(...logprobs);
    expect(streamed).toEqual(scored);
    const generated = await client.generate({ model: "fake", prompt: "a", raw: true, logprobs: true });
    expect(generated.logprobs).toMatchObject([{ top_logprobs: [] }, {}, {}, {}, {}, {}]);
    expect(await client.chat({ model: "fake", messages })).not.toHaveProperty("logprobs");
  });

  it("end at num_predict and at stop texts", async () => {
    const client = await connect(() => "one two three");
    const cut = await client.chat({ model: "fake", messages, options: { num_predict: 3 } });
    expect(cut).toMatchObject({ done_reason: "length", eval_count: 3 });
    const unlimited = await client.chat({ model: "fake", messages, options: { num_predict: 0 } });
    expect(unlimited).toMatchObject({ done_reason: "stop" });
    const stopped = await client.chat({ model: "fake", messages, options: { stop: [" three"], num_ctx: 4096 } });
    expect(stopped.message.content).toBe("one two");
    await client.chat({ model: "fake", messages, options: { temperature: 5 } });
    expect(fake!.engine.submitted.at(-1)?.sampling.temperature).toBe(2);
  });

  it("lose their oldest turns where they are too long, unless truncate is false", async () => {
    const client = await connect((prompt) => prompt.slice(0, 30));
    const turns = Array.from({ length: 40 }, (_, n) => [
      { role: "user", content: `question ${n} ${"x".repeat(400)}` },
      { role: "assistant", content: `answer ${n}` },
    ]);
    const long = [{ role: "system", content: "be brief" }, ...turns.flat(), { role: "user", content: "last" }];
    const options = { num_predict: 100_000 };
    await client.chat({ model: "fake", messages: long, options });
    const prompt = Buffer.from(fake!.engine.submitted.at(-1)!.promptIds).toString();
    expect(prompt).toMatch(/^.system\nbe brief.\n.user\nquestion 3\d /);
    expect(prompt).toContain("last");
    // Another turn would leave less than 256 tokens for the answer.
    expect(prompt.length + 256).toBeLessThanOrEqual(4096);
    expect(prompt.length + 480 + 256).toBeGreaterThan(4096);
    const ask = (more: object) =>
      fetch(`${fake!.server.url}/api/chat`, { method: "POST", body: JSON.stringify({ messages: long, ...more }) });
    const cut = await ask({ stream: false });
    expect([cut.status, cut.headers.get("x-millrace-unenforced")]).toEqual([200, "messages"]);
    const refused = await ask({ truncate: false });
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining("context_length_exceeded")]);
    const short = await ask({ messages, stream: false });
    expect([short.status, short.headers.get("x-millrace-unenforced")]).toEqual([200, null]);
  });

  it("lose the oldest steps of a long last turn, and each step whole", async () => {
    const client = await connect(() => "done");
    const steps = Array.from({ length: 40 }, (_, n) => [
      { role: "assistant", content: "", tool_calls: [{ function: { name: "weather", arguments: { city: `c${n}` } } }] },
      { role: "tool", content: `result ${n} ${"x".repeat(400)}`, tool_name: "weather" },
    ]);
    const long = [{ role: "user", content: "go" }, ...steps.flat()];
    await client.chat({ model: "fake", messages: long, tools });
    const prompt = Buffer.from(fake!.engine.submitted.at(-1)!.promptIds).toString();
    const kept = (pattern: RegExp) => [...prompt.matchAll(pattern)].map(([, n]) => Number(n));
    const [calls, results] = [kept(/"c(\d+)"/g), kept(/result (\d+) /g)];
    expect(prompt).toContain("user\ngo");
    expect([calls.at(-1), calls.length > 3, calls.length < 12, results]).toEqual([39, true, true, calls]);
    const alone = [...long.slice(0, 2), { role: "tool", content: "x".repeat(5000), tool_name: "weather" }];
    await expect(client.chat({ model: "fake", messages: alone, tools })).rejects.toThrow("room for an answer");
  });

  it("take tools of any name and without a type, which the model sees under plain ones", async () => {
    const client = await connect((prompt) => CALL.replace("weather", /city_weather\.?\w*/.exec(prompt)![0]));
    const [name, given] = ["city/weather", { name: "city/weather", description: "Weather", parameters }];
    const said = { role: "assistant", content: "", tool_calls: [{ function: { name, arguments: {} } }] };
    const asked = { model: "fake", messages: [...messages, said, { role: "tool", content: "x", tool_name: name }] };
    const { message } = await client.chat({ ...asked, tools: [{ function: given }] as unknown as typeof tools });
    expect(message.tool_calls).toEqual([
      { id: expect.stringMatching(/^call_/), function: { index: 0, name, arguments: { city: "Paris" } } },
    ]);
    const wrong = client.chat({ ...asked, tools: [{ type: "function", function: { ...given, name: "a b" } }] });
    await expect(wrong).rejects.toThrow(/tools\[0\]\.function\.name/);
  });

  it("have calls with arguments as objects, whole and streamed, and results that go back", async () => {
    const client = await connect(agent);
    const whole = await client.chat({ model: "fake", messages, tools });
    expect(whole.message).toMatchObject({
      content: "I look.",
      tool_calls: [{ function: { name: "weather", arguments: { city: "Paris" } } }],
    });
    const calls: object[] = [];
    for await (const part of await client.chat({ model: "fake", messages, tools, stream: true })) {
      calls.push(...(part.message.tool_calls ?? []));
    }
    expect(calls.map(withoutId)).toEqual(whole.message.tool_calls!.map(withoutId));
    const result = { role: "tool", content: "sunny", tool_name: "weather" };
    const end = await client.chat({ model: "fake", messages: [...messages, whole.message, result], tools });
    expect(end.message.tool_calls).toBeUndefined();
    expect(end.message.content).toContain("sunny");
  });

  it("have two calls in order", async () => {
    const client = await connect(() => `${CALL}\n${CALL}`);
    const whole = await client.chat({ model: "fake", messages, tools });
    expect(whole.message.tool_calls).toHaveLength(2);
    const calls: object[] = [];
    for await (const part of await client.chat({ model: "fake", messages, tools, stream: true })) {
      calls.push(...(part.message.tool_calls ?? []));
    }
    expect(calls.map(withoutId)).toEqual(whole.message.tool_calls!.map(withoutId));
  });

  it("give each result to the oldest open call of its name", async () => {
    const prompts: string[] = [];
    const client = await connect((prompt) => {
      prompts.push(prompt);
      return "Done.";
    });
    const call = (name: string) => ({ function: { name, arguments: {} } });
    const result = (tool_name?: string) => ({ role: "tool", content: "r", ...(tool_name && { tool_name }) });
    const turn = { role: "assistant", content: "", tool_calls: ["a", "b", "a"].map(call) };
    const results = [result("b"), result("unknown"), result(), result("a")];
    await client.chat({ model: "fake", messages: [...messages, turn, ...results] });
    expect(prompts[0]!.match(/FOR \S+/g)).toEqual(["FOR call_1", "FOR call_0", "FOR call_0", "FOR call_2"]);
  });

  it("number their calls, and give a result to the call of its id", async () => {
    const prompts: string[] = [];
    const client = await connect((prompt) => {
      prompts.push(prompt);
      return prompts.length === 1 ? `${CALL}\n${CALL}` : "Done.";
    });
    const { message } = await client.chat({ model: "fake", messages, tools });
    const calls = message.tool_calls as unknown as { id: string; function: { index: number } }[];
    expect(calls.map((call) => call.function.index)).toEqual([0, 1]);
    const results = calls.toReversed().map(({ id }) => ({ role: "tool", content: "r", tool_call_id: id }));
    await client.chat({ model: "fake", messages: [...messages, message, ...results] });
    expect(prompts[1]!.match(/FOR \S+/g)).toEqual(calls.toReversed().map(({ id }) => `FOR ${id}`));
  });

  it("have thoughts apart", async () => {
    const client = await connect(() => "<think>\nhm\n</think>\n\nParis.", thinkingTemplate);
    const { message } = await client.chat({ model: "fake", messages, think: true });
    expect(message).toMatchObject({ content: "Paris." });
    expect(message.thinking).toContain("hm");
    await client.chat({ model: "fake", messages, think: "max" as "high" });
    let thinking = "";
    for await (const part of await client.chat({ model: "fake", messages, stream: true })) {
      thinking += part.message.thinking ?? "";
    }
    expect(thinking).toBe(message.thinking);
  });

  it("without messages say that the model is loaded", async () => {
    const client = await connect(() => "x");
    expect(await client.chat({ model: "fake" })).toMatchObject({ done: true, done_reason: "load" });
    expect(await client.generate({ model: "fake", prompt: "", keep_alive: 0 })).toMatchObject({
      done_reason: "unload",
    });
  });
});

describe("models", () => {
  it("that answer are no embedding models, although they give vectors: clients list those apart", async () => {
    const client = await connect(() => "x");
    expect((await client.embed({ model: "fake", input: "a" })).embeddings).toHaveLength(1);
    const { capabilities } = await client.show({ model: "fake" });
    expect(capabilities).toContain("completion");
    expect(capabilities).not.toContain("embedding");
    expect((await client.list()).models).toMatchObject([{ capabilities }]);
  });
});

describe("what goes wrong", () => {
  it.each([
    ["another model", { model: "other", messages }, 404, /expected the model to be one of "fake"/],
    [
      "an image",
      { messages: [{ ...messages[0], images: ["aGk="] }] },
      400,
      /messages\[0\]\.images: expected no images/,
    ],
    ["a form that is none", { messages, format: "xml" }, 400, /format: expected "json" or a JSON schema/],
    ["an option out of range", { messages, options: { top_p: 2 } }, 400, /options\.top_p: expected/],
  ])("%s is an error with a text", async (_, body, status, text) => {
    fake = await startAnswering(() => "x", toolTemplate);
    const response = await fetch(`${fake.server.url}/api/chat`, { method: "POST", body: JSON.stringify(body) });
    expect(response.status).toBe(status);
    expect(((await response.json()) as { error: string }).error).toMatch(text);
  });

  it("fields and options that are null, or that Ollama does not know, have no effect", async () => {
    fake = await startAnswering(() => "x", toolTemplate);
    const { url } = fake.server;
    const tool = { type: "function", server: "s", function: { name: "f", parameters: { type: "object" } } };
    const options = { temperature: null, mirostat: 2, colour: 1, num_ctx: 9 };
    const body = { messages, stream: false, temperature: 0.1, format: null, tools: [tool], options };
    const post = (path: string, fields: object) =>
      fetch(`${url}${path}`, { method: "POST", body: JSON.stringify(fields) });
    expect((await post("/api/chat", body)).status).toBe(200);
    expect((await post("/api/generate", { prompt: "a", stream: false, colour: 1, options })).status).toBe(200);
    expect((await post("/api/show", { model: "fake", verbose: true, colour: 1 })).status).toBe(200);
    expect(await (await post("/api/embed", { input: "", colour: 1 })).json()).toMatchObject({ embeddings: [] });
    expect(await (await post("/api/embed", {})).json()).toMatchObject({ embeddings: [] });
    expect(await (await post("/api/embeddings", { prompt: "" })).json()).toEqual({ embedding: [] });
  });
});
