/** The engine's thread: loads the model, runs steps while there is work, and reads messages between steps. */
import type { MessagePort } from "node:worker_threads";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { Backend } from "../backend/backend.js";
import { createBackend } from "../backend/create/create-backend.js";
import { pause } from "../core/abort-signals.js";
import { type ErrorCode, errorToRecord, MillraceError, toMillraceError } from "../core/errors.js";
import { openModel } from "../model/open-model.js";
import { EngineCore, type StepOutput } from "./engine-core.js";
import type { FromWorker, ToWorker, WorkerData } from "./messages.js";
import { packOutputs } from "./messages.js";
import { Pulse } from "./pulse.js";

const IDLE_LOOK_MS = 2000;
/** Errors about files tell the operator what to do: requests get them as they are. */
const FILE_CODES: readonly ErrorCode[] = ["model_file_changed", "pack_damaged"];

/** Loads the model, and hands the thread to the loop. */
async function run(port: MessagePort, { options, pulse }: WorkerData): Promise<void> {
  const send = (message: FromWorker) => port.postMessage(message);
  try {
    send({ kind: "progress", stage: "reading the model's header" });
    const model = openModel(options.modelPath);
    send({ kind: "progress", stage: "starting the kernels" });
    const backend = createBackend(options);
    send({ kind: "progress", stage: "mapping weights, reserving KV memory" });
    const core = await EngineCore.create(model, options, backend, {
      progress: (stage, fraction) => send({ kind: "progress", stage, ...(fraction === undefined ? {} : { fraction }) }),
      note: (text) => send({ kind: "note", text }),
    });
    send({ kind: "ready", info: core.info, stats: core.stats() });
    new EngineLoop(port, core, backend, new Pulse(pulse)).start();
  } catch (thrown) {
    fail(port, toMillraceError(thrown, "engine_failed"));
  }
}

/** Runs the core's steps while it has work. Requests come as messages, which it reads between steps. */
class EngineLoop {
  #isStopping = false;
  #isTurning = false;
  /** Mail that came during a step or a pause. Later mail is still in the port. */
  readonly #inbox: ToWorker[] = [];
  /** Ends a pause when mail comes. */
  #arrival = new AbortController();

  constructor(
    private readonly port: MessagePort,
    private readonly core: EngineCore,
    private readonly backend: Backend,
    private readonly pulse: Pulse,
  ) {}

  start(): void {
    this.port.on("message", (message: ToWorker) => {
      this.#inbox.push(message);
      this.#arrival.abort();
      if (!this.#isTurning) this.#guarded(() => this.#turn());
    });
    this.#tidy();
    setInterval(() => this.#checkIdle(), IDLE_LOOK_MS).unref();
  }

  async #turn(): Promise<void> {
    this.#isTurning = true;
    this.#readMail();
    while (this.core.hasWork && !this.#isStopping) {
      this.backend.checkFiles(performance.now());
      this.pulse.turn(this.core.longestStepMs);
      this.#sendStep(await this.core.step());
      this.pulse.stepped();
      this.backend.tidy();
      this.#readMail();
      await this.#pause();
    }
    // Aborts may have emptied the engine since the last step: send the statistics of now.
    this.#sendStep([]);
    this.#isTurning = false;
    this.#tidy();
  }

  /**
   * Rests for as long as background work must, or until a message arrives. Timers and events of this thread run
   * meanwhile.
   */
  async #pause(): Promise<void> {
    const restMs = this.core.restMs();
    if (restMs <= 0) return;
    this.#arrival = new AbortController();
    const startMs = performance.now();
    await pause(restMs, this.#arrival.signal);
    this.core.rested(performance.now() - startMs);
    this.#readMail();
  }

  #readMail(): void {
    for (const message of this.#inbox.splice(0)) this.#receive(message);
    for (let mail = receiveMessageOnPort(this.port); mail !== undefined; mail = receiveMessageOnPort(this.port)) {
      this.#receive(mail.message as ToWorker);
    }
  }

  #receive(message: ToWorker): void {
    if (message.kind === "add") this.core.add(message.requestId, message.request);
    else if (message.kind === "abort") this.core.abort(message.requestId);
    else {
      this.#isStopping = true;
      void this.#stop();
    }
  }

  async #stop(): Promise<void> {
    try {
      if ((await this.core.close()) === "stuck") this.port.postMessage({ kind: "stuck" } satisfies FromWorker);
    } finally {
      this.backend.destroy();
      process.exit(0);
    }
  }

  #sendStep(outputs: readonly StepOutput[]): void {
    const { core } = this;
    const failures = core.takeFailures().map(({ requestId, error }) => ({ requestId, error: errorToRecord(error) }));
    const cacheChanges = core.takeCacheChanges();
    const news = cacheChanges.length === 0 ? {} : { cacheChanges };
    const step = { kind: "step", outputs: packOutputs(outputs), failures, stats: core.stats(), ...news } as const;
    this.port.postMessage(step satisfies FromWorker);
  }

  /** Background work of an idle engine, in pieces, so that mail is read in between. */
  #tidy(): void {
    this.#guarded(() => {
      if (this.core.hasWork || this.#isStopping) return;
      const isChecking = this.backend.tidy();
      if (this.core.tidy() || isChecking) setImmediate(() => this.#tidy());
    });
  }

  /**
   * Checks the files of an idle engine too, so that it ends before it answers from changed weights, and tells of writes
   * to disk that ended after the last step.
   */
  #checkIdle(): void {
    this.#guarded(() => {
      if (this.#isStopping || this.#isTurning) return;
      this.backend.checkFiles(performance.now());
      this.#sendStep([]);
    });
  }

  /** Ends the engine when `work` throws. */
  #guarded(work: () => void | Promise<void>): void {
    const run = async () => work();
    run().catch((thrown: unknown) => fail(this.port, failureOf(toMillraceError(thrown))));
  }
}

function fail(port: MessagePort, error: MillraceError): void {
  port.postMessage({ kind: "failed", error: errorToRecord(error) } satisfies FromWorker);
  port.close();
}

/** The error that requests get: `engine_failed`, or the error itself when it is about a file. */
function failureOf(error: MillraceError): MillraceError {
  if (FILE_CODES.includes(error.code)) return error;
  return new MillraceError("engine_failed", `the engine stopped: ${error.message}`);
}

if (parentPort !== null) void run(parentPort, workerData as WorkerData);
