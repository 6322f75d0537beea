/** The engine as the main thread sees it: a worker thread behind the `Engine` interface. */
import { Worker } from "node:worker_threads";
import { errorFromRecord, MillraceError, toMillraceError } from "../core/errors.js";
import { type BlockChanges, CachedBlocks } from "../text/cached-blocks.js";
import { checkRequest } from "./admission.js";
import type { Closed, Engine, EngineHandle, EngineListener } from "./api/engine.js";
import type { EngineOptions } from "./api/options.js";
import type { EngineOutput } from "./api/output.js";
import type { EngineRequest } from "./api/request.js";
import type { EngineInfo, EngineStats } from "./api/stats.js";
import type { FromWorker, ToWorker } from "./messages.js";
import { unpackOutputs } from "./messages.js";
import { PATIENCE_MS, Pulse, PulseReader } from "./pulse.js";
import { ServiceRate } from "./service-rate.js";

/** Progress of start-up. */
export interface EngineProgress {
  readonly stage: string;
  readonly fraction?: number;
}

/**
 * Loads a model and resolves when it can serve. Rejects with the coded error of the model or the options.
 * @param patienceMs time beyond the longest step after which the engine counts as stalled (`Engine.stalledMs`)
 */
export function startEngine(
  options: EngineOptions,
  onProgress: (progress: EngineProgress) => void = () => {},
  onNote: (text: string) => void = () => {},
  patienceMs: number = PATIENCE_MS,
): Promise<Engine> {
  const pulse = Pulse.memory();
  const worker = new Worker(new URL("./worker.js", import.meta.url), { workerData: { options, pulse } });
  return new Promise((resolve, reject) => {
    const onExit = (code: number) =>
      reject(new MillraceError("engine_failed", `engine thread ended with code ${code}`));
    const onError = (error: unknown) => reject(toMillraceError(error, "engine_failed"));
    worker.once("exit", onExit);
    worker.once("error", onError);
    worker.on("message", function onMessage(message: FromWorker) {
      if (message.kind === "progress") onProgress(message);
      else if (message.kind === "note") onNote(message.text);
      else if (message.kind === "failed") reject(errorFromRecord(message.error));
      else if (message.kind === "ready") {
        worker.off("message", onMessage).off("exit", onExit).off("error", onError);
        resolve(
          new WorkerEngine(worker, options, message.info, message.stats, onNote, new PulseReader(pulse, patienceMs)),
        );
      }
    });
  });
}

class WorkerEngine implements Engine {
  readonly failure: Promise<never>;
  readonly cachedBlocks: CachedBlocks;
  readonly #listeners = new Map<number, EngineListener>();
  readonly #cacheListeners = new Set<(changes: BlockChanges) => void>();
  readonly #rate = new ServiceRate();
  #nextRequestId = 1;
  #stats: EngineStats;
  #state: "open" | "draining" | "closed" | MillraceError = "open";
  #fail: (error: MillraceError) => void = () => {};
  #onIdle: (() => void)[] = [];
  #onStuck = () => {};

  constructor(
    private readonly worker: Worker,
    private readonly options: EngineOptions,
    readonly info: EngineInfo,
    stats: EngineStats,
    private readonly onNote: (text: string) => void,
    private readonly pulse: PulseReader,
  ) {
    this.#stats = stats;
    this.cachedBlocks = new CachedBlocks(info.kvWindows, info.blockSize);
    this.failure = new Promise((_, reject) => {
      this.#fail = reject;
    });
    this.failure.catch(() => {});
    worker.on("message", (message: FromWorker) => this.#receive(message));
    worker.on("error", (error) => this.#end(toMillraceError(error, "engine_failed")));
    worker.on("exit", (code) => this.#end(new MillraceError("engine_failed", `engine thread ended with code ${code}`)));
  }

  submit(request: EngineRequest, listener: EngineListener): EngineHandle {
    this.#refuseUnlessOpen();
    checkRequest(request, this.info);
    this.#refuseWhenFull();
    const requestId = this.#nextRequestId++;
    if (this.#listeners.size === 0) this.#rate.countFirst();
    let isServed = false;
    const onOutput = (output: EngineOutput) => {
      isServed = true;
      listener.onOutput(output);
    };
    this.#listeners.set(requestId, { onOutput, onError: (error) => listener.onError(error) });
    this.pulse.isAwaited = true;
    this.#send({ kind: "add", requestId, request });
    return {
      abort: () => {
        if (!this.#listeners.delete(requestId)) return;
        // A request that was never scheduled says nothing about the service rate.
        if (isServed) this.#rate.countEnded();
        this.#send({ kind: "abort", requestId });
        this.#wakeIfIdle();
      },
    };
  }

  stats(): EngineStats {
    return this.#stats;
  }

  stalledMs(): number {
    return this.pulse.stalledMs();
  }

  onCacheChanges(listener: (changes: BlockChanges) => void): () => void {
    this.#cacheListeners.add(listener);
    return () => this.#cacheListeners.delete(listener);
  }

  drain(): Promise<void> {
    if (this.#state === "open") this.#state = "draining";
    if (this.#listeners.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  async close(): Promise<Closed> {
    if (this.#state === "closed" || this.#state instanceof MillraceError) return "ended";
    this.#state = "closed";
    const closed = new Promise<Closed>((resolve) => {
      this.worker.once("exit", () => resolve("ended"));
      this.#onStuck = () => resolve("stuck");
    });
    this.#send({ kind: "stop" });
    const end = await closed;
    this.#failOpenRequests(new MillraceError("shutting_down", "the server is shutting down"));
    return end;
  }

  #send(message: ToWorker): void {
    this.worker.postMessage(message);
  }

  #refuseUnlessOpen(): void {
    if (this.#state === "open") return;
    if (this.#state instanceof MillraceError) throw this.#state;
    throw new MillraceError("shutting_down", "the server is shutting down and takes no new requests");
  }

  /** Counts every unfinished request: the worker fills seats later than requests are submitted. */
  #refuseWhenFull(): void {
    const { maxWaitingRequests } = this.options;
    const { maxNumSeqs } = this.info;
    if (this.#listeners.size < maxNumSeqs + maxWaitingRequests) return;
    throw new MillraceError(
      "queue_full",
      `expected at most ${maxWaitingRequests} waiting requests beside ${maxNumSeqs} running, got one more`,
      {
        retryAfterSeconds: this.#rate.secondsFor(maxWaitingRequests / 2),
        hint: "Retry after the time in Retry-After, or raise --max-waiting-requests.",
      },
    );
  }

  #receive(message: FromWorker): void {
    if (message.kind === "failed") {
      this.#end(errorFromRecord(message.error));
      return;
    }
    if (message.kind === "note") this.onNote(message.text);
    if (message.kind === "stuck") this.#onStuck();
    if (message.kind !== "step") return;
    this.#stats = message.stats;
    if (message.cacheChanges !== undefined) {
      this.cachedBlocks.apply(message.cacheChanges);
      for (const listener of this.#cacheListeners) listener(message.cacheChanges);
    }
    for (const { requestId, output } of unpackOutputs(message.outputs)) {
      const listener = this.#listeners.get(requestId);
      if (listener === undefined) continue;
      if (output.finishReason !== undefined) {
        this.#listeners.delete(requestId);
        this.#rate.countEnded();
      }
      listener.onOutput(output);
    }
    for (const { requestId, error } of message.failures) {
      const listener = this.#listeners.get(requestId);
      if (listener === undefined) continue;
      this.#listeners.delete(requestId);
      listener.onError(errorFromRecord(error));
    }
    this.#wakeIfIdle();
  }

  #end(error: MillraceError): void {
    if (this.#state === "closed" || this.#state instanceof MillraceError) return;
    this.#state = error;
    this.#failOpenRequests(error);
    this.#fail(error);
    void this.worker.terminate();
  }

  #failOpenRequests(error: MillraceError): void {
    const listeners = [...this.#listeners.values()];
    this.#listeners.clear();
    for (const listener of listeners) listener.onError(error);
    this.#wakeIfIdle();
  }

  #wakeIfIdle(): void {
    if (this.#listeners.size > 0) return;
    this.pulse.isAwaited = false;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }
}
