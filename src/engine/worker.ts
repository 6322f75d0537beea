/** The engine's thread: loads the model, then turns the loop while there is work, and reads its mail between steps. */
import type { MessagePort } from "node:worker_threads";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
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

async function run(port: MessagePort, { options, pulse: pulseMemory }: WorkerData): Promise<void> {
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
    const pulse = new Pulse(pulseMemory);
    send({ kind: "ready", info: core.info, stats: core.stats() });

    let isStopping = false;
    const receive = (message: ToWorker) => {
      if (message.kind === "add") core.add(message.requestId, message.request);
      else if (message.kind === "abort") core.abort(message.requestId);
      else {
        isStopping = true;
        void core.close().finally(() => {
          backend.destroy();
          process.exit(0);
        });
      }
    };
    const sendStep = (outputs: readonly StepOutput[]) => {
      const failures = core.takeFailures().map(({ requestId, error }) => ({ requestId, error: errorToRecord(error) }));
      const cacheChanges = core.takeCacheChanges();
      const news = cacheChanges.length === 0 ? {} : { cacheChanges };
      send({ kind: "step", outputs: packOutputs(outputs), failures, stats: core.stats(), ...news });
    };
    const guarded = async (work: () => void | Promise<void>) => {
      try {
        await work();
      } catch (thrown) {
        fail(failureOf(toMillraceError(thrown)));
      }
    };
    // Background work of an idle engine, in pieces, so that mail is read in between.
    const tidy = () =>
      void guarded(() => {
        if (core.hasWork || isStopping) return;
        const isChecking = backend.tidy();
        if (core.tidy() || isChecking) setImmediate(tidy);
      });
    // Mail delivered during a step waits in the inbox. Later mail is still in the port.
    const inbox: ToWorker[] = [];
    const readMail = () => {
      for (const message of inbox.splice(0)) receive(message);
      for (let mail = receiveMessageOnPort(port); mail !== undefined; mail = receiveMessageOnPort(port)) {
        receive(mail.message as ToWorker);
      }
    };
    let isTurning = false;
    let arrival = new AbortController();
    /** Leaves the CPU to others until somebody writes. Timers and events of this thread have their turn, too. */
    const rest = async (ms: number) => {
      arrival = new AbortController();
      const startMs = performance.now();
      await pause(ms, arrival.signal);
      core.rested(performance.now() - startMs);
    };
    const turn = async () => {
      isTurning = true;
      readMail();
      while (core.hasWork && !isStopping) {
        backend.checkFiles(performance.now());
        pulse.turn(core.longestStepMs);
        sendStep(await core.step());
        pulse.stepped();
        backend.tidy();
        readMail();
        const restMs = core.restMs();
        if (restMs > 0) {
          await rest(restMs);
          readMail();
        }
      }
      // Aborts may have emptied the engine since the last step: send the statistics of now.
      sendStep([]);
      isTurning = false;
      tidy();
    };
    port.on("message", (message: ToWorker) => {
      inbox.push(message);
      arrival.abort();
      if (!isTurning) void guarded(turn);
    });
    tidy();
    // Checks the files of an idle engine too, so that it ends before it answers from changed weights, and tells of writes to disk that ended after the
    // last step.
    const look = () =>
      void guarded(() => {
        if (isStopping || isTurning) return;
        backend.checkFiles(performance.now());
        sendStep([]);
      });
    setInterval(look, IDLE_LOOK_MS).unref();
  } catch (thrown) {
    fail(toMillraceError(thrown, "engine_failed"));
  }

  function fail(error: MillraceError): void {
    send({ kind: "failed", error: errorToRecord(error) });
    port.close();
  }
}

/** Requests hear that the engine failed, unless the error is about a file. */
function failureOf(error: MillraceError): MillraceError {
  if (FILE_CODES.includes(error.code)) return error;
  return new MillraceError("engine_failed", `the engine stopped: ${error.message}`);
}

if (parentPort !== null) void run(parentPort, workerData as WorkerData);
