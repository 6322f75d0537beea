/** A process of the load generator: runs the shares that its parent sends, one at a time. Connections outlive a run. */
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

/** It needs little, and what it needs late is taken for the server's lateness. */
const PRIORITY = -10;

const now = clockSince(process.argv[2]!);
/** Whether the event loop turns without pause while a run is on: an answer is then not late by what it takes to wake a sleeping CPU. */
const isPolling = process.argv[3] === POLL;
const agenda = new Agenda(now);
let pool: { readonly key: string; readonly pool: Pool } | undefined;
let share: Share | undefined;

function tell(message: FromWorker): void {
  process.send?.(message);
}

/** Another server, another pool; the old one's connections are closed. */
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
// The parent is gone, or through.
process.on("disconnect", () => process.exit(0));
// The parent decides what a Ctrl-C in the terminal, or a SIGTERM to all of its group, ends.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
try {
  setPriority(PRIORITY);
} catch {
  // Needs a privilege; without it the lag is only measured.
}
tell({ kind: "ready" });
