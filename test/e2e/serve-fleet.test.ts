/**
 * A fleet of real processes behind one port, as clients and administrators see it: answers, crashes, reloads,
 * exactness.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { toolTemplate } from "../helpers/chat-templates.js";
import { FleetProcess, until } from "../helpers/fleet-process.js";
import { isLongRun } from "../helpers/long.js";
import { startCollector } from "../helpers/otlp-collector.js";
import { startTestServer } from "../helpers/server.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-fleet-template-"));
const template = join(folder, "tools.jinja");
writeFileSync(template, toolTemplate.source);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MODEL = {
  name: "mill-base",
  aliases: ["gpt"],
  model: "models/mill-base.gguf",
  args: ["--chat-template", template],
};
const two = (more: object = {}) => ({ models: [{ ...MODEL, instances: 2, "cores-per-instance": 1, ...more }] });
const clientOf = ({ url }: FleetProcess) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const story = (animal: string) => [{ role: "user" as const, content: `Tell me a short story about a ${animal}.` }];
const ANIMALS = ["fox", "goat", "hen", "mole", "owl", "rat", "toad", "wren"];

const schema = {
  type: "object",
  properties: { colour: { enum: ["red", "blue"] }, size: { type: "integer", minimum: 3, maximum: 40 } },
  required: ["colour", "size"],
  additionalProperties: false,
};

const LONG = 400;
/** Of eight requests at once: an instance computes them for longer than it takes to see them there. */
const KILLED = 120;

/** Tokens for a good while: the model may not end before. */
function longStream(client: OpenAI, model = "mill-base") {
  const length = { min_tokens: LONG, max_tokens: LONG };
  return client.completions.create({
    model,
    prompt: "Once",
    temperature: 1,
    seed: 1,
    stream: true,
    ...length,
  });
}

const metricsOf = async ({ url }: FleetProcess) => (await fetch(`${url}/metrics`)).text();

/** Sampled answers to eight requests, all at once. `min_tokens` is not in the client's types. */
async function answers(fleet: FleetProcess, numTokens = 40): Promise<readonly string[]> {
  const client = clientOf(fleet);
  const length = { min_tokens: numTokens, max_tokens: numTokens };
  const asked = ANIMALS.map((animal, seed) =>
    client.chat.completions.create({ model: "mill-base", messages: story(animal), temperature: 1, seed, ...length }),
  );
  return (await Promise.all(asked)).map(({ choices }) => choices[0]!.message.content ?? "");
}

describe("two instances of the embedded engine", () => {
  let fleet: FleetProcess;
  let client: OpenAI;
  beforeAll(async () => {
    fleet = await FleetProcess.start(two());
    client = clientOf(fleet);
  });
  afterAll(() => fleet[Symbol.asyncDispose]());

  test("ready instances are listed in a table", () => {
    expect(fleet.text).toMatch(/model +instance +engine +state +url/);
    expect(fleet.text).toMatch(/mill-base +mill-base-1 +millrace +ready +http:\/\/127\.0\.0\.1:\d+/);
  });

  test("models are listed under all their names", async () => {
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(["mill-base", "gpt"]);
  });

  test("a chat has the same text, streamed or complete, by name or alias", async () => {
    const asked = { messages: story("fox"), max_tokens: 24, temperature: 0 };
    const whole = await client.chat.completions.create({ model: "mill-base", ...asked });
    const stream = await client.chat.completions.create({ model: "gpt", ...asked, stream: true });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text.length).toBeGreaterThan(0);
    expect(text).toBe(whole.choices[0]!.message.content);
  });

  test("answers follow a JSON schema", async () => {
    const { choices } = await client.chat.completions.create({
      model: "mill-base",
      messages: story("shirt"),
      max_tokens: 200,
      response_format: { type: "json_schema", json_schema: { name: "shirt", schema } },
    });
    expect(JSON.parse(choices[0]!.message.content!)).toMatchObject({ colour: expect.stringMatching(/^(red|blue)$/) });
  });

  test("tools are called", async () => {
    const { choices } = await client.chat.completions.create({
      model: "mill-base",
      messages: story("shirt"),
      max_tokens: 200,
      tool_choice: "required",
      tools: [{ type: "function", function: { name: "shirt", parameters: schema, strict: true } }],
    });
    const [call] = choices[0]!.message.tool_calls!;
    expect(call).toMatchObject({ type: "function", function: { name: "shirt" } });
  });

  test("both instances answer, and the metrics show it", async () => {
    await answers(fleet);
    const text = await metricsOf(fleet);
    for (const id of ["mill-base-0", "mill-base-1"]) {
      expect(text).toMatch(
        new RegExp(`millrace_fleet:requests_total\\{model="mill-base",instance="${id}",outcome="answered"\\} [1-9]`),
      );
      expect(text).toContain(
        `millrace_fleet:instance_state{model="mill-base",instance="${id}",engine="millrace",state="ready"} 1`,
      );
    }
  });

  test("the same requests get the same tokens as from one instance", async () => {
    await using one = await FleetProcess.start(two({ instances: 1 }));
    expect(await answers(fleet)).toEqual(await answers(one));
  });

  test("an instance that is killed under load loses no answer and is restarted", async () => {
    const before = await answers(fleet, KILLED);
    const victimNow = async () => (await fleet.instances()).find(({ id }) => id === "mill-base-0")!;
    const asked = [answers(fleet, KILLED), answers(fleet, KILLED)];
    await until(async () => (await victimNow()).in_flight > 0, "requests on the victim");
    const victim = await victimNow();
    process.kill(victim.pid, "SIGKILL");
    for (const got of await Promise.all([...asked, answers(fleet, KILLED)])) expect(got).toEqual(before);
    expect(await metricsOf(fleet)).toMatch(
      /millrace_fleet:retries_total\{model="mill-base",instance="mill-base-0"\} [1-9]/,
    );
    const isBack = async () => (await victimNow()).state === "ready" && (await victimNow()).starts > victim.starts;
    await until(isBack, "the killed instance to be ready again");
  });

  test("a reload does not interrupt a running stream, and a bad file has no effect", async () => {
    const stream = await longStream(client);
    let numChunks = 0;
    let reason: string | null = null;
    for await (const chunk of stream) {
      reason = chunk.choices[0]?.finish_reason ?? reason;
      if (numChunks++ === 3)
        await fleet.reload(two({ aliases: ["renamed"] }), /reloaded: applied; no process had to restart/);
    }
    expect(reason).toBe("length");
    const names = async () => (await client.models.list()).data.map(({ id }) => id);
    expect(await names()).toEqual(["mill-base", "renamed"]);
    const pids = (await fleet.instances()).map(({ pid }) => pid);
    await fleet.reload(
      "models: [{ nmae: x }]",
      /config_unknown_key[\s\S]*write name[\s\S]*previous configuration stays/,
    );
    expect(await names()).toEqual(["mill-base", "renamed"]);
    await fleet.reload(two(), /reloaded/);
    expect((await fleet.instances()).map(({ pid }) => pid)).toEqual(pids);
  });

  test("a model with changed engine settings gets new processes, and its running stream completes", async () => {
    const stream = await longStream(client);
    const pids = (await fleet.instances()).map(({ pid }) => pid);
    let reloaded: Promise<void> | undefined;
    let reason: string | null = null;
    for await (const chunk of stream) {
      reason = chunk.choices[0]?.finish_reason ?? reason;
      reloaded ??= fleet.reload(two({ options: { "max-num-seqs": 5 } }), /reloaded: replaced mill-base/);
    }
    expect(reason).toBe("length");
    await reloaded;
    expect((await answers(fleet)).every((text) => text.length > 0)).toBe(true);
    for (const { pid } of await fleet.instances()) expect(pids).not.toContain(pid);
  });

  test("the administrator scales within the bounds, drains and restarts", async () => {
    expect(await fleet.admin("POST", "/admin/models/mill-base/scale", { instances: 9 })).toEqual({
      model: "mill-base",
      instances: 2,
      asked: 9,
      limited_by: "max",
      hint: expect.stringContaining("limits mill-base to max: 2"),
    });
    await fleet.admin("POST", "/admin/instances/mill-base-1/drain");
    const stateOf = async () => (await fleet.instances()).find(({ id }) => id === "mill-base-1")!.state;
    await until(async () => (await stateOf()) === "stopped", "the drained instance to stop");
    expect(await answers(fleet)).toHaveLength(ANIMALS.length);
    await fleet.admin("POST", "/admin/instances/mill-base-1/restart");
    await until(async () => (await stateOf()) === "ready", "the instance to be ready again");
  });

  test("on a stop signal it finishes running requests and leaves no process", async () => {
    const pids = (await fleet.instances()).map(({ pid }) => pid);
    const stream = await longStream(client);
    let exitCode: Promise<number | null> | undefined;
    let numChunks = 0;
    for await (const _ of stream) {
      exitCode ??= fleet.stop();
      numChunks++;
    }
    expect(numChunks).toBeGreaterThan(20);
    expect(await exitCode).toBe(0);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
  });
});

test("an on-demand model is loaded by its first request, and is unloaded for another", async () => {
  const onDemand = { model: "models/mill-student.gguf", load: "on-demand", memory: "1GiB" };
  const names = ["one", "other"];
  const models = names.map((name) => ({ name, ...onDemand }));
  await using fleet = await FleetProcess.start({ "memory-budget": "1GiB", models });
  const client = clientOf(fleet);
  for (const model of names) {
    const asked = { model, messages: story("fox"), max_tokens: 8, temperature: 0 };
    const { choices } = await client.chat.completions.create(asked);
    expect(choices[0]!.message.content).not.toBe("");
    const ready = (await fleet.instances()).filter(({ state }) => state === "ready");
    expect(ready.map((instance) => instance.model)).toEqual([model]);
  }
});

// In npm test, src/fleet/scaling has the decision, and the administrator above scales.
test.runIf(isLongRun)("a queue adds an instance, and idleness removes it (needs npm run test:long)", async () => {
  const autoscale = { "up-at": 0.5, "up-after": "1s", "down-after": "1s" };
  const own = { ...MODEL, instances: { min: 1, max: 2 }, options: { "max-num-seqs": 1 }, autoscale };
  await using fleet = await FleetProcess.start({ models: [own] });
  const numReady = async () => (await fleet.instances()).filter(({ state }) => state === "ready").length;
  expect(await numReady()).toBe(1);
  let isOver = false;
  const client = clientOf(fleet);
  const load = Array.from({ length: 6 }, async () => {
    while (!isOver) for await (const _ of await longStream(client)) if (isOver) return;
  });
  await until(async () => (await numReady()) === 2, "a second instance");
  isOver = true;
  await Promise.all(load);
  await until(async () => (await numReady()) === 1, "one instance again");
});

test("a model that is removed from the file finishes its stream and is then unknown", async () => {
  const names = ["mill-base", "other"];
  const models = names.map((name) => ({ name, model: MODEL.model, aliases: [`${name}-alias`] }));
  await using fleet = await FleetProcess.start({ models });
  const client = clientOf(fleet);
  const stream = await longStream(client, "mill-base-alias");
  let reloaded: Promise<void> | undefined;
  let reason: string | null = null;
  for await (const chunk of stream) {
    reason = chunk.choices[0]?.finish_reason ?? reason;
    reloaded ??= fleet.reload({ models: models.slice(1) }, /reloaded: removed mill-base/);
  }
  expect(reason).toBe("length");
  await reloaded;
  await expect(longStream(client, "mill-base-alias")).rejects.toThrow(/model to be one of other, other-alias/);
  expect((await fleet.instances()).map(({ model }) => model)).toEqual(["other"]);
});

test("requests become spans in their client's trace", async () => {
  await using collector = await startCollector();
  const telemetry = { "otlp-endpoint": collector.url, "service-name": "mill" };
  await using fleet = await FleetProcess.start({ ...two({ instances: 1 }), telemetry });
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const headers = { traceparent: `00-${trace}-b7ad6b7169203331-01` };
  await clientOf(fleet).completions.create({ model: "gpt", prompt: "Once", max_tokens: 4 }, { headers });
  expect(await fleet.stop()).toBe(0);
  expect(collector.spans()).toMatchObject([{ name: "text_completion gpt", traceId: trace }]);
  expect(collector.metrics().map(({ name }) => name)).toContain("gen_ai.server.request.duration");
  expect(collector.metrics().map(({ name }) => name)).toContain("gen_ai.client.token.usage");
});

test("running servers are attached and found by their own name", async () => {
  await using one = await startTestServer([]);
  await using other = await startTestServer([]);
  // One that is away is no reason to wait.
  const urls = [one.url, other.url, "http://127.0.0.1:9"];
  await using fleet = await FleetProcess.run(["--port", "0", "--attach", urls.join()]);
  expect(fleet.text).toMatch(/mill-base-attached-1 +openai +ready/);
  expect(fleet.text).toMatch(/mill-base-attached-2 +openai +failed/);
  expect((await answers(fleet)).every((text) => text.length > 0)).toBe(true);
});

test("a fleet without a working instance exits and reports the reason", async () => {
  const broken = FleetProcess.start({
    models: [{ name: "m", model: "/nowhere/m.gguf", program: ["/nowhere/engine"] }],
  });
  await expect(broken).rejects.toThrow(/instance_failed[\s\S]*expected the program \/nowhere\/engine/);
});

// In npm test, src/bench/splits has the measurement.
test.runIf(isLongRun)(
  "with flags only, the best number of instances is measured once and used (needs npm run test:long)",
  async () => {
    // A tenth of the size: what is measured is not the point.
    const model = "models/mill-student.gguf";
    const args = ["--port", "0", "--model", model, "--instances", "auto", "--max-num-seqs", "4"];
    const first = await FleetProcess.run(args);
    expect(first.text).toMatch(/1 × \d+ cores: \d+ tokens\/s/);
    expect(await first.stop()).toBe(0);
    await using second = await FleetProcess.run(args, first.folder);
    expect(second.text).toContain("(measured before)");
  },
);

const llamaServer = process.env.MILLRACE_LLAMA_SERVER;
describe.skipIf(llamaServer === undefined)("the same file with llama-server (MILLRACE_LLAMA_SERVER)", () => {
  test.each(["millrace", "llama-server"])("%s", async (engine) => {
    const { model } = MODEL;
    const program = engine === "millrace" ? {} : { program: [llamaServer] };
    const options = { "max-num-seqs": 4, "max-model-len": 512 };
    const own = { name: "m", engine, ...program, model, options, instances: 2, "cores-per-instance": 1 };
    await using fleet = await FleetProcess.start({ models: [own] });
    const client = clientOf(fleet);
    const asked = { model: "m", messages: story("fox"), max_tokens: 24, temperature: 0, seed: 1 };
    const whole = await client.chat.completions.create(asked);
    let text = "";
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? "";
    }
    expect(text.length).toBeGreaterThan(0);
    expect(text).toBe(whole.choices[0]!.message.content);
    const scraped = new RegExp(`millrace:num_requests_running\\{model="m",instance="m-0",engine="${engine}"\\}`);
    const isScraped = async () => scraped.test(await metricsOf(fleet));
    await until(isScraped, "the instance's own metrics");
  });
});
