/**
 * Measures a split of the cores or GPUs with an engine's own servers, started as the fleet starts them: all instances
 * at the same time.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { z } from "zod";
import type { MeasuredSplit, Split } from "../../fleet/scaling/instance-plan.js";
import { Supervisor } from "../../fleet/supervision/supervisor.js";
import type { ModelSpec } from "../../fleet/upstream/model-spec.js";
import type { UpstreamTarget } from "../../fleet/upstream/upstream.js";
import { prose } from "../workload/prose.js";
import { Random } from "../workload/random.js";
import { failure, GEN_TOKENS, REPETITIONS } from "./measure-split.js";

/** About as many tokens as in the prompts of `measureSplit`. */
const PROMPT_WORDS = 96;
const REQUEST_MS = 10 * 60_000;

/**
 * @param spec the model with this split's instances. Throws peer_failed with the last lines of an instance that does
 * not start.
 */
export async function measureServedSplit(spec: ModelSpec, split: Split, concurrency: number): Promise<MeasuredSplit> {
  const logFolder = mkdtempSync(join(tmpdir(), "millrace-split-"));
  const supervisor = new Supervisor({ logger: pino({ level: "silent" }), logFolder });
  try {
    // Attached servers run elsewhere: their speed says nothing about a split of this machine.
    supervisor.addModel({ ...spec, attach: [] });
    const targets = await startedTargets(supervisor, spec);
    const share = Math.ceil(concurrency / targets.length);
    const random = new Random(0);
    const perTarget = (count: number) =>
      targets.flatMap((target) => Array.from({ length: share }, () => requestsOf(target, spec.name, random, count)));
    await Promise.all(perTarget(1));
    const startMs = performance.now();
    const counts = await Promise.all(perTarget(REPETITIONS));
    const seconds = (performance.now() - startMs) / 1000;
    return { ...split, tokensPerS: counts.reduce((sum, count) => sum + count, 0) / seconds };
  } finally {
    await supervisor.close({ now: true });
    rmSync(logFolder, { recursive: true, force: true });
  }
}

async function startedTargets(supervisor: Supervisor, { name, instances }: ModelSpec): Promise<UpstreamTarget[]> {
  // While a failed process still has its pid, its end is not yet explained.
  const failed = () => supervisor.upstreams(name).find(({ state, pid }) => state === "failed" && pid === undefined);
  let stopListening = (): void => {};
  await new Promise<void>((resolve) => {
    const check = (): void => {
      const numReady = supervisor.upstreams(name).filter(({ state }) => state === "ready").length;
      if (failed() !== undefined || numReady === instances) resolve();
    };
    stopListening = supervisor.onChange(check);
    check();
  });
  stopListening();
  const ended = failed();
  if (ended !== undefined) throw failure(ended.reason ?? "a failure");
  return supervisor.upstreams(name).flatMap(({ target }) => target ?? []);
}

const answered = z.object({ usage: z.object({ completion_tokens: z.number() }) });

/** Sends requests one after the other. @returns their output tokens */
async function requestsOf(
  { url, apiKey, modelName }: UpstreamTarget,
  model: string,
  random: Random,
  count: number,
): Promise<number> {
  const headers = {
    "content-type": "application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  };
  let numTokens = 0;
  for (let i = 0; i < count; i++) {
    const prompt = prose(random, PROMPT_WORDS);
    const body = { model: modelName ?? model, prompt, max_tokens: GEN_TOKENS, temperature: 0, ignore_eos: true };
    const response = await fetch(`${url}/v1/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    const text = await response.text();
    if (!response.ok) throw failure(`status ${response.status}: ${text.slice(0, 500)}`);
    numTokens += answered.parse(JSON.parse(text)).usage.completion_tokens;
  }
  return numTokens;
}
