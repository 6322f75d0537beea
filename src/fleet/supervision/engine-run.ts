/**
 * One run of an engine: chooses its ports, starts its process, waits until it is ready, watches it, and reports the
 * reason for its end.
 */

import { once } from "node:events";
import { eitherOf, pause, within } from "../../core/abort-signals.js";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { Adapter } from "../adapters/adapter.js";
import { listedModelLen } from "../adapters/engine-http.js";
import type { EngineMetrics } from "../upstream/engine.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import type { Capacity, UpstreamTarget } from "../upstream/upstream.js";
import { builtEngine } from "./engine-build.js";
import { EngineProcess } from "./engine-process.js";
import { type ReservedPorts, reservePorts } from "./free-ports.js";
import { askForHealth, HealthWatch } from "./health-watch.js";
import type { InstanceLog } from "./instance-log.js";
import { environmentOf, prepareLaunch } from "./launch.js";
import type { OrphanGuard } from "./orphan-guard.js";
import type { FleetTiming } from "./timing.js";

const DEFAULT_START_TIMEOUT_MS = 600_000;
const DEFAULT_STOP_TIMEOUT_MS = 10_000;
const FIRST_READY_POLL_MS = 25;
const LAST_READY_POLL_MS = 1000;

export interface RunContext {
  readonly spec: ModelSpec;
  readonly slot: number;
  readonly adapter: Adapter;
  readonly timing: FleetTiming;
  readonly log: InstanceLog;
  readonly guard: OrphanGuard;
  /** Folder for files that the engine needs. */
  readonly folder: string;
  readonly mark: string;
  /** Aborted to end the process without waiting. */
  readonly hurry: AbortSignal;
}

interface RunListener {
  onNotice(text: string): void;
  /** Called with the progress of the work before the engine's start. */
  onProgress(text: string): void;
  onStarted(pid: number): void;
  onReady(target: UpstreamTarget, capacity: Capacity, watch: HealthWatch): void;
  onMetrics(metrics: EngineMetrics): void;
  /** @param isSure see HealthListener @returns whether to end the process */
  onHealth(problem: string | undefined, isSure: boolean): boolean;
  /** Called as soon as the process has ended or must end, before cleanup. */
  onOver(reason: string): void;
}

export interface RunEnd {
  readonly wasReady: boolean;
  /** Another start would fail the same way. */
  readonly isFinal: boolean;
  readonly reason: string;
}

/** @param quit abort it to end the process at any stage */
export async function runEngine(context: RunContext, listener: RunListener, quit: AbortSignal): Promise<RunEnd> {
  let reserved: ReservedPorts | undefined;
  try {
    reserved = await reservePorts(context.spec.host, 3);
    return await runOnPorts(context, listener, quit, reserved.ports as [number, number, number]);
  } catch (thrown) {
    const { message, hint } = toMillraceError(thrown);
    const reason = hint === undefined ? message : `${message}. ${hint}`;
    // Our own errors are permanent; the system's may be temporary.
    return { wasReady: false, isFinal: thrown instanceof MillraceError, reason };
  } finally {
    reserved?.release();
  }
}

async function runOnPorts(
  context: RunContext,
  listener: RunListener,
  quit: AbortSignal,
  [port, ...sparePorts]: [number, number, number],
): Promise<RunEnd> {
  const { adapter, spec, slot, folder, log, guard, mark } = context;
  const built = await buildFor(context, listener, quit);
  const place = { host: spec.host, port, sparePorts, folder, ...(built === undefined ? {} : { built }) };
  const launch = await prepareLaunch(adapter, spec, slot, place);
  for (const notice of launch.notices) listener.onNotice(notice);
  log.forgetTail();
  const child = await EngineProcess.start({ ...launch, log, guard, mark, yieldsToGateway: spec.engine === "millrace" });
  const { modelName, cacheEvents } = launch;
  const own = { url: urlOf(spec.host, port), apiKey: spec.options.apiKey, modelName };
  const target: UpstreamTarget = cacheEvents === undefined ? own : { ...own, cacheEvents };
  try {
    return await attend(context, listener, child, target, quit);
  } finally {
    await stop(context, child);
  }
}

function buildFor(context: RunContext, listener: RunListener, quit: AbortSignal): Promise<string | undefined> {
  const { adapter, spec, slot, log } = context;
  const env = environmentOf(spec, slot);
  log.forgetTail();
  const run = (command: readonly [string, ...string[]]) => runToItsEnd(context, command, env, quit);
  const { onProgress, onNotice } = listener;
  return builtEngine({ adapter, spec, env, run, onProgress, onNotice }, quit);
}

/**
 * Runs a program before the engine, watched like the engine. Rejects with build_failed if it fails by itself and so
 * would fail again.
 */
async function runToItsEnd(
  context: RunContext,
  command: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  quit: AbortSignal,
): Promise<void> {
  const { log, guard, mark, spec } = context;
  const child = await EngineProcess.start({ command, env, log, guard, mark });
  const over = eitherOf(child.ended, quit);
  if (!over.signal.aborted) await once(over.signal, "abort");
  over.dispose();
  const isCut = !child.ended.aborted;
  await stop(context, child);
  if (isCut) throw new Error(`${command[0]} was told to end`);
  if (child.ending === "ended with code 0") return;
  const got = `${child.ending}; its last lines:\n${log.lastLines(spec.options.apiKey)}`;
  const message = `expected ${command[0]} to end with code 0, got: ${got}`;
  throw child.ending.startsWith("was ended by") ? new Error(message) : new MillraceError("build_failed", message);
}

function stop({ spec, hurry }: RunContext, child: EngineProcess): Promise<void> {
  return child.stop(spec.stopTimeoutMs ?? DEFAULT_STOP_TIMEOUT_MS, hurry);
}

async function attend(
  context: RunContext,
  listener: RunListener,
  child: EngineProcess,
  target: UpstreamTarget,
  quit: AbortSignal,
): Promise<RunEnd> {
  const { adapter, spec, log, timing } = context;
  listener.onStarted(child.pid);
  const over = eitherOf(child.ended, quit);
  const problem = await untilReady(context, target, over.signal);
  const wasReady = problem === undefined && !over.signal.aborted;
  let hungBecause: string | undefined;
  if (wasReady) {
    const capacity = await capacityOf(context, target, over.signal);
    const watch = new HealthWatch(adapter, target, timing, {
      onMetrics: (metrics) => listener.onMetrics(metrics),
      onHealth(found, isSure) {
        if (!listener.onHealth(found, isSure)) return;
        hungBecause = found;
        over.abort();
      },
    });
    if (!over.signal.aborted) listener.onReady(target, capacity, watch);
    await watch.run(over.signal);
  }
  over.dispose();
  const own = wasReady ? child.ending : `${child.ending} before it was ready`;
  const ending = child.ended.aborted ? own : (hungBecause ?? problem ?? "was told to end");
  listener.onOver(ending);
  await stop(context, child);
  const lines = log.lastLines(spec.options.apiKey);
  return {
    wasReady,
    isFinal: false,
    reason: lines === "" ? ending : `${ending}; its last lines:\n${lines}`,
  };
}

/** @returns the problem at the time limit; undefined if the engine is ready or `over` aborts */
async function untilReady(
  { adapter, spec, timing }: RunContext,
  target: UpstreamTarget,
  over: AbortSignal,
): Promise<string | undefined> {
  const timeoutMs = spec.startTimeoutMs ?? DEFAULT_START_TIMEOUT_MS;
  const deadlineMs = performance.now() + timeoutMs;
  let pollMs = FIRST_READY_POLL_MS;
  while (!over.aborted) {
    const { problem } = await askForHealth(adapter, target, timing.answerTimeoutMs, over);
    if (problem === undefined) return undefined;
    if (performance.now() >= deadlineMs) return `was not ready after ${timeoutMs / 1000} s: ${problem}`;
    await pause(Math.min(pollMs, Math.max(1, deadlineMs - performance.now())), over);
    pollMs = Math.min(LAST_READY_POLL_MS, pollMs * 1.2);
  }
  return undefined;
}

/** The capacity that the engine reports. Without reported seats, its `maxNumSeqs` stands in. */
export async function capacityOf(
  { adapter, spec, timing }: Pick<RunContext, "adapter" | "spec" | "timing">,
  target: UpstreamTarget,
  signal: AbortSignal,
): Promise<Capacity> {
  const unknown = { seats: undefined, kvTokens: undefined, blockSize: undefined };
  const ask = <T>(asked: (limited: AbortSignal) => Promise<T>) => within(timing.answerTimeoutMs, signal, asked);
  const [said, maxModelLen] = await Promise.all([
    ask((limited) => adapter.capacity(target, limited)).catch(() => unknown),
    ask((limited) => listedModelLen(target, target.modelName ?? spec.name, limited)).catch(() => undefined),
  ]);
  return { ...said, seats: said.seats ?? spec.options.maxNumSeqs, maxModelLen };
}

function urlOf(host: string, port: number): string {
  // An engine bound to all addresses is reachable on loopback.
  const reached = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${reached.includes(":") ? `[${reached}]` : reached}:${port}`;
}
