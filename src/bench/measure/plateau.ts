/**
 * The part of a run under the full load, without ramp and drain. With clients: from the first to the last moment at
 * which nine of ten are busy. With arrivals: from the end of the first answer to the last arrival. It counts only if
 * the number of answers that end within it is at least the number of concurrent requests.
 */

import { extremesOf } from "../../core/statistics.js";
import type { RequestRecord } from "../load/record.js";

interface Plateau {
  readonly startMs: number;
  readonly endMs: number;
  readonly numDone: number;
}

const BUSY_SHARE = 0.9;

/** @param numClients undefined for open loads and traces */
export function plateauOf(records: readonly RequestRecord[], numClients: number | undefined): Plateau | undefined {
  const sent = records.filter((record) => record.lastMs > record.sentMs);
  if (sent.length === 0) return undefined;
  const { startMs, endMs, most } = numClients === undefined ? arrivalTime(sent) : busyTime(sent, numClients);
  const numDone = sent.filter((record) => record.lastMs > startMs && record.lastMs <= endMs).length;
  return endMs > startMs && numDone >= most ? { startMs, endMs, numDone } : undefined;
}

interface Window {
  readonly startMs: number;
  readonly endMs: number;
  /** Concurrent requests. */
  readonly most: number;
}

function busyTime(records: readonly RequestRecord[], numClients: number): Window {
  const changes = changesOf(records);
  const most = Math.min(numClients, mostAtOnce(changes));
  const isBusy = (count: number) => count >= BUSY_SHARE * most;
  const first = changes.findIndex((change) => isBusy(change.count));
  const last = changes.findLastIndex((change) => isBusy(change.count));
  // The busy time lasts until the next change.
  return { startMs: changes[first]!.atMs, endMs: changes[last + 1]!.atMs, most };
}

function arrivalTime(records: readonly RequestRecord[]): Window {
  return {
    startMs: extremesOf(records.map((record) => record.lastMs)).min,
    endMs: extremesOf(records.map((record) => record.sentMs)).max,
    most: mostAtOnce(changesOf(records)),
  };
}

interface Change {
  readonly atMs: number;
  readonly count: number;
}

const mostAtOnce = (changes: readonly Change[]): number =>
  changes.reduce((most, { count }) => Math.max(most, count), 0);

/** Number of requests in progress after each change. */
function changesOf(records: readonly RequestRecord[]): Change[] {
  const steps = records.flatMap(({ sentMs, lastMs }) => [
    { atMs: sentMs, step: 1 },
    { atMs: lastMs, step: -1 },
  ]);
  // At equal times, endings come first: a client that continues at once is one client.
  steps.sort((a, b) => a.atMs - b.atMs || a.step - b.step);
  let count = 0;
  return steps.map(({ atMs, step }) => {
    count += step;
    return { atMs, count };
  });
}

/** Tokens that arrived within a window: a request's tokens are spread evenly over its chunks. */
export function outputTokensIn(records: readonly RequestRecord[], startMs: number, endMs: number): number {
  return records.reduce((sum, { chunkAtMs, numOutputTokens }) => {
    if (chunkAtMs.length === 0) return sum;
    const numChunks = chunkAtMs.filter((atMs) => atMs > startMs && atMs <= endMs).length;
    return sum + (numOutputTokens * numChunks) / chunkAtMs.length;
  }, 0);
}
