/** The text at a single engine's start: the address, the model, its defaults, and an example request. */

import { resolve } from "node:path";
import { formatBytes } from "../../core/quantities.js";
import { evictionText } from "../../engine/api/kv-eviction.js";
import type { EngineInfo } from "../../engine/api/stats.js";
import { BUNDLED_MODELS, type BundledModel, bundledModelPath } from "../../formats/locate-model.js";
import type { SamplingDefaults } from "../../formats/sampling-defaults.js";
import type { ChatTemplate } from "../../text/template/chat-template.js";
import { describeSampling } from "./describe-sampling.js";
import { formatTable } from "./format.js";

/** A running server's facts for the text at its start. */
export interface ReadyFacts {
  readonly server: { readonly url: string };
  readonly engine: { readonly info: EngineInfo };
  readonly modelNames: readonly [string, ...string[]];
  readonly chatTemplate: ChatTemplate | undefined;
  readonly needsApiKey: boolean;
  /** Whether the API keys share cached prefixes, as a sentence; absent with fewer than two keys. */
  readonly sharing?: string | undefined;
  readonly samplingDefaults: SamplingDefaults;
  /** The model's file or folder. */
  readonly path: string;
}

/** Two lines about each bundled model, with the figures of its card, models/README.md. */
const ABOUT: Readonly<Record<BundledModel, readonly [string, string]>> = {
  "mill-base": [
    "a tiny model for trying the server: 6.2 M parameters, trained on 143 M tokens of synthetic dialogues.",
    "It computes, lists, extracts, edits, summarises, and writes small functions and stories; it knows few facts.",
  ],
  "mill-student": [
    "a tiny model that extracts JSON from texts: 1.2 M parameters, distilled from mill-base.",
    "It only extracts; for chats use mill-base.",
  ],
};

const ABOUT_LINES = 2;

const STORY = "Tell me a short story about a fox and a river.";
const EXTRACTION = "I need JSON for a meeting with Maria Lopez on Friday at 10:30";

function bundledModel(path: string): BundledModel | undefined {
  return BUNDLED_MODELS.find((name) => bundledModelPath(name) === resolve(path));
}

function aboutRows(path: string): string[][] {
  const name = bundledModel(path);
  if (name === undefined) return [];
  return [
    ["  about", ABOUT[name][0]],
    ["", ABOUT[name][1]],
    [
      "  larger ones",
      "--model FILE.gguf, or from the hub: --model hf:Qwen/Qwen3-0.6B-GGUF:Q8_0; `plan` finds models that fit",
    ],
  ];
}

/** A description of a bundled model, without the flags that a fleet's file replaces; "" for other models. */
export function aboutModel(path: string): string {
  const rows = aboutRows(path).slice(0, ABOUT_LINES);
  return rows.length > 0 ? `${formatTable(rows)}\n` : "";
}

export function readyText(instance: ReadyFacts): string {
  const { engine, server, modelNames, samplingDefaults, path } = instance;
  const { numKvBlocks, blockSize, kvBytes, kvCacheDtype, kvEviction, recurrentBytes, maxNumSeqs } = engine.info;
  const { numThreads, isa, maxModelLen, isCausal, tasks } = engine.info;
  const sampling = describeSampling(samplingDefaults);
  const rows = [
    ["  ready", `${server.url} (chat page in a browser, OpenAI API under /v1)`],
    [
      "  model",
      `${modelNames.join(", ")}: ${engine.info.architecture}, ${engine.info.weightType}, context ${maxModelLen}`,
    ],
    ["  threads", `${numThreads} (${isa})`],
  ];
  if (isCausal) {
    const stated =
      sampling === "" ? "the API's defaults (temperature 1)" : `${sampling}, unless a request sets its own`;
    rows.splice(2, 0, ["  sampling", stated]);
    const evicted =
      kvEviction === undefined ? "" : `; long texts keep a part of their keys and values (${evictionText(kvEviction)})`;
    rows.push([
      "  KV",
      `${formatBytes(kvBytes)} of ${kvCacheDtype}: room for ${numKvBlocks * blockSize} tokens${evicted}`,
    ]);
    if (recurrentBytes > 0) {
      const stated = `${formatBytes(recurrentBytes)} of recurrent states: ${maxNumSeqs} sequences at once`;
      rows.push(["  states", `${stated}; cached prefixes are taken up where prompts end or part`]);
    }
  } else
    rows.splice(2, 0, ["  for", tasks.includes("rerank") ? "scores of texts against a query" : "vectors of texts"]);
  if (instance.sharing !== undefined) rows.push(["  keys", instance.sharing]);
  rows.push(...aboutRows(path));
  return `${formatTable(rows)}\n\n  try:\n${curlExample(instance)}`;
}

/** An example request that works as written: its path below /v1, and its body. */
function exampleOf({ engine, modelNames, chatTemplate, path }: ReadyFacts): readonly [path: string, body: object] {
  const [model] = modelNames;
  const { isCausal, tasks } = engine.info;
  const texts = ["It is 330 m tall.", "Paris is in France."];
  if (tasks.includes("rerank")) return ["rerank", { model, query: "How tall is the tower?", documents: texts }];
  if (!isCausal) return ["embeddings", { model, input: texts }];
  if (chatTemplate === undefined) return ["completions", { model, prompt: "Once upon a time", max_tokens: 64 }];
  const content = bundledModel(path) === "mill-student" ? EXTRACTION : STORY;
  return ["chat/completions", { model, messages: [{ role: "user", content }] }];
}

function curlExample(facts: ReadyFacts): string {
  const { server, needsApiKey } = facts;
  const auth = needsApiKey ? " -H 'authorization: Bearer YOUR_KEY'" : "";
  const [path, body] = exampleOf(facts);
  return `  curl ${server.url}/v1/${path} -H 'content-type: application/json'${auth} -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
}
