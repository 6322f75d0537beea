/**
 * The figures of one run. For a request with t0 intended, t1 sent, f first token, l last token, and n tokens by
 * `usage`: TTFT = f − t1, and also f − t0; E2E = l − t1; TPOT = (l − f) ÷ (n − 1) for n ≥ 2; ITL = the gaps between
 * arrivals with tokens, over all requests, to be read with the tokens per chunk. Failed requests count as offered and
 * as missing every objective, and nowhere else.
 */

import { extremesOf } from "../../core/statistics.js";
import type { RequestRecord } from "../load/record.js";
import type { RunMetrics, Slo } from "../results/schema.js";
import type { Load } from "../workload/load.js";
import { meets } from "../workload/slo.js";
import { distributionOf } from "./percentiles.js";
import { outputTokensIn, plateauOf } from "./plateau.js";

/** The least number of answers for which a drift is more than chance. */
const MIN_FOR_DRIFT = 20;

/** Times of one answered request; TPOT is undefined for a single token, and for an answer that arrived as a whole. */
export function timesOf(
  record: Pick<RequestRecord, "sentMs" | "lastMs" | "numOutputTokens"> & { readonly firstMs: number },
) {
  const { sentMs, firstMs, lastMs, numOutputTokens } = record;
  return {
    ttftMs: firstMs - sentMs,
    e2eMs: lastMs - sentMs,
    tpotMs: numOutputTokens >= 2 && lastMs > firstMs ? (lastMs - firstMs) / (numOutputTokens - 1) : undefined,
  };
}

export function measureRun(records: readonly RequestRecord[], load: Load, slo: Slo | undefined): RunMetrics {
  // An answer without text has no first token; its end is used.
  const answered = records
    .filter((record) => record.failure === undefined)
    .map((record) => ({ ...record, firstMs: record.chunkAtMs[0] ?? record.lastMs }));
  const times = answered.map(timesOf);
  const sum = (value: (record: (typeof answered)[number]) => number) =>
    answered.reduce((total, record) => total + value(record), 0);
  const { min: startMs } = extremesOf(records.map((record) => record.sentMs));
  const durationMs = records.length === 0 ? 0 : extremesOf(records.map((record) => record.lastMs)).max - startMs;
  const perS = (count: number) => (durationMs === 0 ? 0 : (1000 * count) / durationMs);
  const promptTokens = sum((record) => record.numPromptTokens);
  const outputTokens = sum((record) => record.numOutputTokens);
  const numChunks = sum((record) => record.chunkAtMs.length);
  const hasReasoning = answered.some((record) => record.answerAtMs !== record.chunkAtMs[0]);
  const gaps = answered.flatMap(({ chunkAtMs }) =>
    chunkAtMs.slice(1).map((endMs, i) => ({ endMs, ms: endMs - chunkAtMs[i]! })),
  );
  const isBesidePrompt = withinAny(answered.map(({ sentMs, firstMs }) => [sentMs, firstMs]));
  const good = slo === undefined ? [] : times.filter((each) => meets(slo, each));
  return {
    numRequests: records.length,
    failures: failuresOf(records),
    promptTokens,
    outputTokens,
    cachedTokens: sum((record) => record.numCachedTokens),
    durationMs,
    outputTokensPerS: perS(outputTokens),
    totalTokensPerS: perS(promptTokens + outputTokens),
    concurrency: durationMs === 0 ? 0 : times.reduce((total, each) => total + each.e2eMs, 0) / durationMs,
    plateau: plateauMetrics(records, load.kind === "closed" ? load.concurrency : undefined),
    ttftMs: distributionOf(times.map((each) => each.ttftMs)),
    intendedTtftMs: distributionOf(answered.map((record) => record.firstMs - record.intendedMs)),
    answerMs: hasReasoning
      ? distributionOf(
          answered.flatMap(({ answerAtMs, sentMs }) => (answerAtMs === undefined ? [] : answerAtMs - sentMs)),
        )
      : undefined,
    tpotMs: distributionOf(times.flatMap((each) => each.tpotMs ?? [])),
    itlMs: distributionOf(gaps.map((gap) => gap.ms)),
    itlBesidePromptsMs: distributionOf(gaps.filter((gap) => isBesidePrompt(gap.endMs)).map((gap) => gap.ms)),
    itlUndisturbedMs: distributionOf(gaps.filter((gap) => !isBesidePrompt(gap.endMs)).map((gap) => gap.ms)),
    e2eMs: distributionOf(times.map((each) => each.e2eMs)),
    sendDelayMs: distributionOf(records.map((record) => record.sentMs - record.intendedMs)),
    tokensPerChunk: numChunks === 0 ? 0 : outputTokens / numChunks,
    slo:
      slo === undefined
        ? undefined
        : { goodRequestsPerS: perS(good.length), attainment: good.length / Math.max(1, records.length) },
  };
}

/** Whether a time lies in one of the spans, excluding their starts. A request's own gaps begin after its own span. */
function withinAny(spans: readonly (readonly [fromMs: number, toMs: number])[]): (ms: number) => boolean {
  const sorted = [...spans].sort((a, b) => a[0] - b[0]);
  // For each span, the latest end so far.
  let latest = Number.NEGATIVE_INFINITY;
  const ends = sorted.map(([, toMs]) => {
    latest = Math.max(latest, toMs);
    return latest;
  });
  return (ms) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle]![0] < ms) low = middle + 1;
      else high = middle;
    }
    return low > 0 && ends[low - 1]! >= ms;
  };
}

function failuresOf(records: readonly RequestRecord[]): RunMetrics["failures"] {
  const failures = records.flatMap((record) => record.failure ?? []);
  return [...new Set(failures.map((failure) => failure.kind))].map((kind) => {
    const same = failures.filter((failure) => failure.kind === kind);
    return { kind, count: same.length, example: same[0]!.detail };
  });
}

function plateauMetrics(records: readonly RequestRecord[], numClients: number | undefined): RunMetrics["plateau"] {
  const plateau = plateauOf(records, numClients);
  if (plateau === undefined) return undefined;
  const { startMs, endMs, numDone } = plateau;
  const answered = records.filter((record) => record.failure === undefined);
  const durationMs = endMs - startMs;
  const middleMs = startMs + durationMs / 2;
  const first = outputTokensIn(answered, startMs, middleMs);
  const second = outputTokensIn(answered, middleMs, endMs);
  // A prompt counts when its first token arrives.
  const begun = answered.filter(({ chunkAtMs: [firstMs = 0] }) => firstMs > startMs && firstMs <= endMs);
  const promptTokens = begun.reduce((sum, record) => sum + record.numPromptTokens, 0);
  return {
    startMs,
    durationMs,
    numDone,
    outputTokensPerS: (1000 * (first + second)) / durationMs,
    totalTokensPerS: (1000 * (first + second + promptTokens)) / durationMs,
    drift: first === 0 || numDone < MIN_FOR_DRIFT ? undefined : second / first - 1,
  };
}

/** A run's throughput: that of the plateau if there is one. */
export function throughputOf({ plateau, outputTokensPerS }: Pick<RunMetrics, "plateau" | "outputTokensPerS">): number {
  return plateau?.outputTokensPerS ?? outputTokensPerS;
}

/** Above this share of the time per token, the client's own delays would show in the reported figures. */
const MAX_DELAY_SHARE = 0.01;

/**
 * Delays up to this limit, in milliseconds, do not void a run because of the time per token: a small model's token
 * takes less than a millisecond, and 1 % of that is less than a process needs to wake up. A steady delay cancels out of
 * TPOT, because the first and the last token share it, and counts once in TTFT and E2E. So the time of the whole answer
 * still bounds it.
 */
const DELAY_FLOOR_MS = 0.2;

/** Reasons caused by the client. */
export const READ_LATE = `the machine was too busy for the load generator: it read answers late by more than 1 % of the time per token (and ${1000 * DELAY_FLOOR_MS} µs), or of an answer's time`;
export const SENT_LATE =
  "the machine was too busy for the load generator: it sent requests late by more than 1 % of an answer's time";

/**
 * Reasons why a run is void. Late reading delays each token of an answer, so its limit depends on the time per token. A
 * request is sent once, so the limit for late sending depends on the time of the whole answer: TTFT begins with the
 * sending, and a client that waits for answers sends less often by that share. Both delays are typical values; the
 * longest delays are recorded as well.
 * @param lagMs how long answers waited in the client
 */
export function voidReasons(metrics: RunMetrics, lagMs: number): string[] {
  if (metrics.ttftMs === undefined) return ["no request was answered"];
  const tpotMs = metrics.tpotMs?.percentiles.p50 ?? metrics.tpotMs?.mean ?? metrics.ttftMs.mean;
  const sendDelayMs = metrics.sendDelayMs?.percentiles.p50 ?? 0;
  const answerMs = metrics.e2eMs?.percentiles.p50 ?? metrics.e2eMs?.mean ?? metrics.ttftMs.mean;
  const reasons: string[] = [];
  if (lagMs > maxLagMs(tpotMs, answerMs)) reasons.push(READ_LATE);
  if (sendDelayMs > MAX_DELAY_SHARE * answerMs) reasons.push(SENT_LATE);
  return reasons;
}

/** The floor applies only while it is below 1 % of an answer's time. */
function maxLagMs(tpotMs: number, answerMs: number): number {
  return Math.max(MAX_DELAY_SHARE * tpotMs, Math.min(DELAY_FLOOR_MS, MAX_DELAY_SHARE * answerMs));
}
