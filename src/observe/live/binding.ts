/**
 * Finds the present bottleneck of a server or a part of a fleet: the metric that shows it, in words, and the remedy.
 */
import { hostFinding, isKvFull, lacksKvFor, prefillFinding } from "../../core/bottleneck-rules.js";
import type { Load } from "./load.js";

/** In this order; the first that applies is the bottleneck. */
export const BINDING_NAMES = ["memory", "seats", "queue", "host", "prefill", "decode", "steps", "nothing"] as const;
type BindingName = (typeof BINDING_NAMES)[number];

export interface Binding {
  readonly name: BindingName;
  /** The metric that shows it, with its value. */
  readonly evidence: string;
  /** The remedy; empty if none is needed. */
  readonly advice: string;
}

const ADVICE: Readonly<Record<BindingName, string>> = {
  memory: "Give the KV cache more memory (kv-cache-memory-bytes), keep it in int8, or add an instance.",
  seats: "Raise max-num-seqs where the time per token allows it, or add an instance.",
  queue:
    "Look at the instances and the events: a model that is loading, an instance that gets no requests, or a long prompt that takes a whole step (max-num-batched-tokens) keeps others waiting.",
  host: "Start fewer threads or processes, at most one for each core, or make steps larger (max-num-batched-tokens).",
  prefill:
    "Put what prompts share first, so that the prefix cache finds it, or make steps larger (max-num-batched-tokens).",
  decode: "Answers are read from memory token by token: quantised weights and drafts make them faster.",
  steps: "What the steps do is not known, or not yet: the engine's own metrics may tell.",
  nothing: "",
};

const percent = (share: number): string => `${Math.round(100 * share)} %`;

/**
 * @param waitedBefore requests that waited at the reading before: a request that has just arrived is not a queue
 * @example bindingOf(load).name // "seats"
 */
export function bindingOf(load: Load, waitedBefore = load.waiting ?? 0): Binding {
  const [name, evidence] = findingOf(load, waitedBefore);
  return { name, evidence, advice: ADVICE[name] };
}

type Finding = readonly [name: BindingName, evidence: string];

function findingOf(load: Load, waitedBefore: number): Finding {
  const { running = 0, waiting = 0, tokensOutPerS = 0, preemptionsPerS = 0, promptShare, hostShare } = load;
  if (preemptionsPerS > 0) return ["memory", `num_preemptions_total grows by ${preemptionsPerS.toFixed(1)} a second`];
  const held = waiting > 0 ? heldBy(load, waiting, running, waitedBefore) : undefined;
  if (held !== undefined) return held;
  if (running === 0 && tokensOutPerS === 0) return ["nothing", "num_requests_running is 0"];
  const ofHost = hostFinding(hostShare === undefined ? undefined : 1 - hostShare);
  if (ofHost !== undefined) return ["host", `${ofHost} (engine_kernel_seconds_total)`];
  const ofPrompts = prefillFinding(promptShare);
  if (ofPrompts !== undefined) return ["prefill", `${ofPrompts} (engine_prompt_seconds_total)`];
  const tokens = `${Math.round(tokensOutPerS)} tokens of answers a second`;
  if (promptShare === undefined) return ["steps", `${running} requests are computed, ${tokens}, none held up`];
  return [
    "decode",
    `${percent(1 - promptShare)} of the steps' time is for answers (engine_prompt_seconds_total): ${tokens}`,
  ];
}

/** The cause for which requests wait. */
function heldBy(load: Load, waiting: number, running: number, waitedBefore: number): Finding | undefined {
  const { kvUse, seats } = load;
  const waits = `num_requests_waiting is ${waiting}`;
  const memory = kvUse === undefined ? "" : `kv_cache_usage_perc is ${percent(kvUse)}`;
  if (kvUse !== undefined && isKvFull(kvUse)) return ["memory", `${memory}, and ${waits}`];
  if (seats !== undefined && running >= seats) return ["seats", `${waits}, with ${seats} of ${seats} seats taken`];
  if (kvUse !== undefined && running > 0 && lacksKvFor(kvUse, running))
    return ["memory", `${memory} with ${running} running, which leaves no room for the next, and ${waits}`];
  if (waitedBefore === 0) return undefined;
  const taken = seats === undefined ? "an unknown number of seats" : `${running} of ${seats} seats`;
  return ["queue", [`${waits} with ${taken} taken`, memory].filter((part) => part !== "").join("; ")];
}
