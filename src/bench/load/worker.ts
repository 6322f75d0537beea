/**
 * A process of the load generator: runs the shares that its parent sends, one at a time. Connections stay open between
 * runs.
 */
import { setPriority } from "node:os";
import { Pool } from "undici";
import { sessionsOf } from "../workload/traffic.js";
import { Agenda } from "./agenda.js";
import { clockSince } from "./clock.js";
import { LoopWatch } from "./loop-watch.js";
import { type FromWorker, POLL, type RunMessage, type ToWorker } from "./messages.js";
import type { RequestRecord } from "./record.js";
import { Share } from "./share.js";

const PROGRESS_MS = 250;

/** Raises the priority: a worker needs little CPU time, and its own delays would look like the server's. */
const PRIORITY = -10;

const now = clockSince(process.argv[2]!);
/** Whether the event loop spins during a run, so that no answer waits for a sleeping CPU to wake. */
const isPolling = process.argv[3] === POLL;
const agenda = new Agenda(now);
let pool: { readonly key: string; readonly pool: Pool } | undefined;
let share: Share | undefined;

function tell(message: FromWorker): void {
  process.send?.(message);
}

/** One pool for each server; the previous server's connections are closed. */
function poolFor({ url, timeoutMs }: RunMessage): Pool {
  const key = `${url} ${timeoutMs}`;
  if (pool?.key === key && !pool.pool.destroyed) return pool.pool;
  void pool?.pool.destroy();
  const timeouts = { connectTimeout: timeoutMs, headersTimeout: timeoutMs, bodyTimeout: timeoutMs };
  pool = { key, pool: new Pool(new URL(url).origin, { connections: null, pipelining: 1, ...timeouts }) };
  return pool.pool;
}

async function run(message: RunMessage): Promise<void> {
  const records: RequestRecord[] = [];
  const progress = { numSent: 0, numDone: 0, numFailed: 0, numOutputTokens: 0 };
  const watch = new LoopWatch(now);
  const basePath = new URL(message.url).pathname.replace(/\/$/, "");
  const connection = { pool: poolFor(message), basePath, headers: message.headers, now, watch };
  share = new Share(message.share, sessionsOf(message.traffic), connection, agenda, {
    onSent: () => {
      progress.numSent++;
    },
    onRecord: (record) => {
      records.push(record);
      progress.numDone++;
      if (record.failure !== undefined) progress.numFailed++;
      progress.numOutputTokens += record.numOutputTokens;
    },
  });
  const timer = setInterval(() => tell({ kind: "progress", progress }), PROGRESS_MS);
  if (isPolling) poll(share);
  await share.run();
  clearInterval(timer);
  const { hasGivenUp } = share;
  share = undefined;
  tell({ kind: "done", records, lag: watch.lag(), hasGivenUp });
}

function poll(running: Share): void {
  if (share === running) setImmediate(poll, running);
}

process.on("message", (message: ToWorker) => {
  if (message.kind === "run") void run(message);
  else share?.stop();
  if (message.kind === "abort") void pool?.pool.destroy();
});
// The parent has ended or needs no more runs.
process.on("disconnect", () => process.exit(0));
// The worker ignores Ctrl-C and a SIGTERM to the process group, because the parent decides when it ends.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
try {
  setPriority(PRIORITY);
} catch {
  // This needs a privilege; lag is also measured without it.
}
tell({ kind: "ready" });
