/** Names the bottleneck from the evidence, with the figures that show it. */
import { hostFinding, lacksKvFor, prefillFinding } from "../../core/bottleneck-rules.js";
import type { Evidence } from "./evidence.js";

export type Bottleneck =
  | "client"
  | "unknown"
  | "kv memory"
  | "seats"
  | "threads"
  | "cache"
  | "drafts"
  | "interference"
  | "host"
  | "prefill"
  | "bandwidth";

export interface Finding {
  readonly bottleneck: Bottleneck;
  /** @example "62 % of the time to the first token is waiting, with 4 of 4 seats taken by 16 clients" */
  readonly because: string;
}

/** The quantity that changes should improve; for latencies, interference matters. */
export type Objective = "throughput" | "goodput" | "cost" | "ttft" | "tpot" | "e2e";

const percent = (share: number): string => `${Math.round(100 * share)} %`;
const times = (ratio: number): string => `${ratio.toFixed(1)} ×`;

/** Thresholds of each rule, calibrated on the planted cases of the tests (docs/background/benchmarks/tuning.md). */
const WAITS = 0.2;
const PREEMPTED = 0.02;
const BUSY = 0.8;
const IDLE = 0.5;
const MISSED_CACHE = 0.25;
const PROMPTS_COUNT = 0.1;
const LOW_ACCEPTANCE = 0.3;
const REJECTED = 0.25;
const DISTURBED = 3;
const CLIENT_BUSY = 0.85;

/** Returns undefined if the rule does not apply. */
type Rule = (evidence: Evidence, objective: Objective) => string | undefined;

/** Ordered: a bottleneck that hides others comes before them. */
const RULES: readonly (readonly [Bottleneck, Rule])[] = [
  ["client", clientIsBusy],
  ["unknown", serverIsUnknown],
  ["kv memory", kvIsFull],
  ["seats", seatsAreTaken],
  ["threads", threadsAreFew],
  ["cache", cacheIsMissed],
  ["host", ({ kernelShare }) => hostFinding(kernelShare)],
  ["drafts", draftsFail],
  ["interference", promptsDisturb],
  ["prefill", ({ prefillShare }) => prefillFinding(prefillShare)],
];

/**
 * All findings, the bottleneck first. The last rule applies to every server that reports its figures: steps read
 * weights.
 */
export function findingsOf(evidence: Evidence, objective: Objective): Finding[] {
  const findings = RULES.flatMap(([bottleneck, rule]) => {
    const because = rule(evidence, objective);
    return because === undefined ? [] : [{ bottleneck, because }];
  });
  if (!evidence.isServerKnown) return findings;
  const rows = evidence.maxRunning === undefined ? "" : `, ${Math.round(evidence.maxRunning)} requests in the batch`;
  const decode = evidence.prefillShare === undefined ? "" : `, ${percent(1 - evidence.prefillShare)} of it decoding`;
  const because = `no queue, memory or cache limit is reached: steps take the time${decode}${rows}`;
  return [...findings, { bottleneck: "bandwidth", because }];
}

function clientIsBusy({ clientUtilization, numClients, queueShare, cpuCores, threads }: Evidence): string | undefined {
  if (clientUtilization > CLIENT_BUSY) return `the load generator is ${percent(clientUtilization)} busy`;
  const isIdle = cpuCores !== undefined && cpuCores < IDLE * threads;
  if (numClients !== undefined || queueShare > WAITS || !isIdle) return undefined;
  return `requests do not wait, and the server uses ${cpuCores.toFixed(1)} of ${threads} threads: the rate is all there is to do`;
}

function serverIsUnknown({ isServerKnown, cacheHitShare }: Evidence): string | undefined {
  if (isServerKnown) return undefined;
  return `no /metrics: queue${cacheHitShare === undefined ? ", memory and cache" : " and memory"} are not known`;
}

function kvIsFull(evidence: Evidence, objective: Objective): string | undefined {
  const { preemptionsPerRequest, maxKvUsage = 0, maxRunning, seats, queueShare } = evidence;
  const { numClients = Number.POSITIVE_INFINITY } = evidence;
  if (preemptionsPerRequest > PREEMPTED) {
    return `${preemptionsPerRequest.toFixed(2)} preemptions a request, KV memory ${percent(maxKvUsage)} full`;
  }
  const hasFreeSeats = maxRunning !== undefined && maxRunning < Math.min(seats, numClients);
  const isFull = maxRunning !== undefined && lacksKvFor(maxKvUsage, maxRunning);
  if (!isFull || !waits(evidence, objective) || !hasFreeSeats) return undefined;
  return `requests wait (${percent(queueShare)} of the time to the first token) with ${Math.round(maxRunning)} of ${seats} seats taken and KV memory ${percent(maxKvUsage)} full`;
}

/** The wait for the first token does not delay later ones. */
const waits = ({ queueShare }: Evidence, objective: Objective): boolean => queueShare > WAITS && objective !== "tpot";

function seatsAreTaken(evidence: Evidence, objective: Objective): string | undefined {
  const { queueShare, maxRunning, seats, numClients } = evidence;
  if (!waits(evidence, objective) || maxRunning === undefined || maxRunning < seats) return undefined;
  const by = numClients === undefined ? "" : ` by ${numClients} clients`;
  return `${percent(queueShare)} of the time to the first token is waiting, with ${seats} of ${seats} seats taken${by}`;
}

function threadsAreFew({ threads, cores, cpuCores }: Evidence): string | undefined {
  if (threads >= cores || cpuCores === undefined || cpuCores < BUSY * threads) return undefined;
  return `${threads} of ${cores} cores compute, ${percent(cpuCores / threads)} busy`;
}

function cacheIsMissed({
  repeatedShare,
  movedShare,
  cacheHitShare,
  prefillShare = 1,
  isServerKnown,
}: Evidence): string | undefined {
  if (prefillShare < PROMPTS_COUNT) return undefined;
  if (movedShare > MISSED_CACHE) {
    return `${percent(movedShare)} of the prompts' text repeats behind something that changes, where no cache finds it: millrace prompts audit says what to move`;
  }
  if (cacheHitShare === undefined && !isServerKnown) return undefined;
  if (repeatedShare - (cacheHitShare ?? 0) < MISSED_CACHE) return undefined;
  return `${percent(repeatedShare)} of the prompts' tokens repeat earlier ones, ${percent(cacheHitShare ?? 0)} come from the cache`;
}

function draftsFail({ acceptance, rejectedPerToken }: Evidence): string | undefined {
  // Occasional tries let the server notice when drafts pay again.
  if (acceptance === undefined || acceptance >= LOW_ACCEPTANCE || rejectedPerToken < REJECTED) return undefined;
  return `${percent(acceptance)} of the drafted tokens are accepted, and ${rejectedPerToken.toFixed(1)} are computed in vain for each token of an answer`;
}

function promptsDisturb({ interference }: Evidence, objective: Objective): string | undefined {
  if (objective === "throughput" || objective === "cost" || objective === "ttft") return undefined;
  if (interference === undefined || interference < DISTURBED) return undefined;
  return `gaps between tokens (p95) are ${times(interference)} as long while a prompt is computed`;
}
