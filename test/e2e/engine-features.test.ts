/**
 * What real engines do beyond the conformance suite: the cells of the table of differences (docs/reference/engines.md)
 * that say "run". One model in all of them, the bundled one.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { convertModel } from "../../src/convert/convert.js";
import { ADAPTERS } from "../../src/fleet/adapters/index.js";
import type { ModelSpec } from "../../src/fleet/upstream/model-spec.js";
import { toolTemplate } from "../helpers/chat-templates.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { modelSpec, type TestFleet, testFleet } from "../helpers/fleet.js";
import { realSglang, realVllm } from "../helpers/real-engines.js";

const { MILLRACE_LLAMA_SERVER: llamaServer, MILLRACE_VLLM: vllm, MILLRACE_SGLANG: sglang } = process.env;
const START_MS = 240_000;
const GGUF = join(repositoryRoot(), "models/mill-base.gguf");

const folder = mkdtempSync(join(tmpdir(), "millrace-features-"));
const template = join(folder, "tools.jinja");
writeFileSync(template, toolTemplate.source);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Features {
  /** A call of the tool that `tool_choice` names. */
  readonly namedTool: boolean;
  readonly jsonSchema: boolean;
  readonly logProbabilities: boolean;
  /** Status of /v1/embeddings. */
  readonly embeddings: number;
  /** Status of a request with a priority. */
  readonly priority: number;
  /** Prompt tokens found in the cache: by the same salt, by another. */
  readonly cachedBySalt: readonly [boolean, boolean];
  readonly usageInStream: boolean;
}

const TOOL = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: { type: "object", properties: { city: { type: "string", maxLength: 20 } }, required: ["city"] },
  },
};
const SCHEMA = {
  type: "object",
  properties: { city: { enum: ["Paris", "Rome"] } },
  required: ["city"],
  additionalProperties: false,
};

async function featuresOf(fleet: TestFleet): Promise<Features> {
  const { target } = await fleet.supervisor.whenReady("m");
  const post = (path: string, body: object) =>
    fetch(`${target!.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: target!.modelName, ...body }),
    });
  const chat = async (content: string, fields: object) => {
    const messages = [{ role: "user", content }];
    const response = await post("/v1/chat/completions", { messages, temperature: 0, max_tokens: 64, ...fields });
    const text = await response.text();
    if (response.status !== 200) console.info(`${fleet.supervisor.instances()[0]!.engine}: ${text.slice(0, 300)}`);
    return { status: response.status, text, answer: text.startsWith("{") ? JSON.parse(text) : {} };
  };
  const hits = async () => {
    const { engine } = fleet.supervisor.instances()[0]!;
    const { metricsPath, parseMetrics } = ADAPTERS[engine];
    return parseMetrics(await (await fetch(`${target!.url}${metricsPath}`)).text()).prefixHits ?? 0;
  };
  const question = "What is the capital of France?";
  const tool = await chat("What is the weather in Paris?", {
    tools: [TOOL],
    tool_choice: { type: "function", function: { name: "get_weather" } },
    max_tokens: 256,
  });
  const json = await chat(question, {
    response_format: { type: "json_schema", json_schema: { name: "answer", schema: SCHEMA, strict: true } },
  });
  const logProbabilities = await chat(question, { logprobs: true, top_logprobs: 2 });
  const long = Array.from({ length: 60 }, (_, i) => `Number ${i} is ${i * i}.`).join(" ");
  const cached: boolean[] = [];
  await chat(long, { max_tokens: 1, cache_salt: "one" });
  for (const cache_salt of ["one", "two"]) {
    const before = await hits();
    await chat(long, { max_tokens: 1, cache_salt });
    // Engines write their metrics some time after the answer.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    // The first tokens of the template may be common to both.
    cached.push((await hits()) - before > 64);
  }
  const stream = await chat(question, { stream: true, stream_options: { include_usage: true } });
  const content = json.answer.choices?.[0]?.message?.content ?? "";
  return {
    namedTool: tool.answer.choices?.[0]?.message?.tool_calls?.[0]?.function?.name === "get_weather",
    jsonSchema: /^\s*\{\s*"city"\s*:\s*"(Paris|Rome)"\s*\}\s*$/.test(content),
    logProbabilities: logProbabilities.answer.choices?.[0]?.logprobs?.content?.[0]?.top_logprobs?.length === 2,
    embeddings: (await post("/v1/embeddings", { input: "a text" })).status,
    priority: (await chat(question, { priority: 1 })).status,
    cachedBySalt: [cached[0]!, cached[1]!],
    usageInStream: /"usage":\s*\{[^}]*"completion_tokens":\s*[1-9]/.test(stream.text),
  };
}

function itHas(spec: Partial<ModelSpec> & Pick<ModelSpec, "engine">, inFolder: boolean, expected: Features): void {
  it(
    `${spec.engine} has the features of the table`,
    async () => {
      const model = inFolder ? join(folder, spec.engine) : GGUF;
      if (inFolder) await convertModel({ model: GGUF, out: model, type: "BF16" });
      await using fleet = testFleet();
      const options = { model, maxModelLen: 1024, maxNumSeqs: 2, threads: 1 };
      const isPriority = spec.engine !== "llama-server";
      fleet.supervisor.addModel(
        modelSpec({
          ...spec,
          args: [
            ...(spec.args ?? []),
            spec.engine === "llama-server" ? "--chat-template-file" : "--chat-template",
            template,
          ],
          options: { ...options, ...(isPriority ? { schedulingPolicy: "priority" } : {}) },
          startTimeoutMs: START_MS,
        }),
      );
      expect(await featuresOf(fleet)).toEqual(expected);
    },
    START_MS + 120_000,
  );
}

const ALL: Features = {
  namedTool: true,
  jsonSchema: true,
  logProbabilities: true,
  embeddings: 200,
  priority: 200,
  cachedBySalt: [true, false],
  usageInStream: true,
};

describe("our own engine", () => {
  // Tenants are told apart by a header; a salt of the body is refused nowhere and used as well.
  itHas({ engine: "millrace", program: ADAPTERS.millrace.program! }, false, ALL);
});

describe.skipIf(llamaServer === undefined)("llama-server (needs MILLRACE_LLAMA_SERVER)", () => {
  // It embeds in a mode of its own (--embeddings), knows no salt, takes a priority and orders by arrival. Its parser of
  // tool calls is made from the template: with this one, it refuses the model's call with 500.
  const differs = { embeddings: 501, cachedBySalt: [true, true], namedTool: false } as const;
  itHas({ engine: "llama-server", program: [llamaServer ?? ""] }, false, { ...ALL, ...differs });
});

describe.skipIf(vllm === undefined)("vllm (needs MILLRACE_VLLM)", () => {
  const { args, ...rest } = realVllm(vllm ?? "");
  // Without a parser even a named tool is refused; a server of chats embeds nothing.
  const parser = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"];
  itHas({ ...rest, args: [...args, ...parser] }, true, { ...ALL, embeddings: 404 });
});

describe.skipIf(sglang === undefined)("sglang (needs MILLRACE_SGLANG)", () => {
  const { args, ...rest } = realSglang(sglang ?? "");
  itHas({ ...rest, args: [...args, "--tool-call-parser", "qwen25"] }, true, { ...ALL, embeddings: 400 });
});
