/** One engine with its HTTP server: starts from flags, registers, and stops on signals. */
import { keepsApart } from "../../core/cache-scope.js";
import { certificateFilesOf, readCertificate } from "../../core/certificate.js";
import { pagePolicy } from "../../core/cors.js";
import { assertFreePort } from "../../core/listen.js";
import { createLogger } from "../../core/log.js";
import { optionError } from "../../core/option-error.js";
import { packageVersion } from "../../core/package-root.js";
import { registerServer } from "../../core/server-registry.js";
import type { StartStage } from "../../core/stages.js";
import { logThroughput } from "../../core/throughput-log.js";
import { type LocatedModel, locateModel } from "../../formats/locate-model.js";
import { type StartedEngine, startEngineWithText } from "../../local/start-engine.js";
import { EventLog } from "../../observe/live/event-log.js";
import { History } from "../../observe/live/history.js";
import type { RunningServer } from "../../serve/server.js";
import { engineSettingsFrom } from "../flags/engine-options.js";
import {
  assertAdminReads,
  assertCertificatePair,
  assertKeysToIsolate,
  type ServerFlags,
} from "../flags/server-options.js";
import { describeSharing } from "../output/describe-access.js";
import { reportError } from "../output/report-error.js";
import { onStopSignals, withoutRepeats } from "./stop-signal.js";

interface ServingInstance extends StartedEngine {
  readonly server: RunningServer;
  readonly modelNames: readonly [string, ...string[]];
  /** Paths of all its open files. */
  readonly uses: readonly string[];
  readonly needsApiKey: boolean;
  /** Whether its API keys share cached prefixes, as a sentence; absent with fewer than two keys. */
  readonly sharing?: string | undefined;
}

export async function startInstance(flags: ServerFlags, startStage: StartStage): Promise<ServingInstance> {
  assertKeysToIsolate(flags);
  assertAdminReads(flags);
  assertCertificatePair(flags);
  const certificate = certificateFilesOf(flags);
  // Before the model is loaded, which takes minutes.
  if (certificate !== undefined) readCertificate(certificate);
  await assertFreePort(flags.host, flags.port);
  const logger = createLogger(flags.logLevel, flags.logFormat);
  const history = new History(flags.historyFile, (text) => logger.warn(text));
  const eventsFile = history.isKept ? `${flags.historyFile}.events` : undefined;
  const events = new EventLog(eventsFile, (text) => logger.warn(text));
  // Loads during the engine's loading of weights.
  const serving = Promise.all([
    import("../../serve/server.js"),
    import("../../serve/http/context.js"),
    import("../../serve/generation/seeds.js"),
    import("../../serve/load-counts.js"),
  ]);
  serving.catch(() => {});
  const engineSettings = engineSettingsFrom(flags);
  const copy = await quantisedCopyFor(flags, engineSettings.numThreads, startStage);
  const source = { ...flags, ...(copy === undefined ? {} : { model: copy.path }), engine: engineSettings };
  const started = await startEngineWithText(source, startStage);
  const { engine, tokenizer, asyncTokenizer, chatTemplate, embeddingPrompts, samplingDefaults } = started;
  const name = copy?.name ?? started.name;
  const [firstName = name, ...otherNames] = flags.servedModelName ?? [];
  const modelNames = [firstName, ...otherNames] as const;
  const apiKeys = flags.apiKey ?? [];
  const isolatesApiKeys = keepsApart(apiKeys, flags.isolateApiKeys);
  const uses = [started.path, ...started.files, engineSettings.speculative.draftModelPath ?? ""];
  const library =
    flags.adminKey === undefined ? undefined : (await import("../../library/app.js")).openLibrary({ uses: () => uses });
  const stage = startStage("server");
  try {
    const [{ startServer }, { DEFAULT_LIMITS }, { seedsFrom }, { countsOf }] = await serving;
    const server = await startServer({
      engine,
      tokenizer,
      asyncTokenizer,
      chatTemplate,
      embeddingPrompts,
      samplingDefaults,
      modelNames,
      apiKeys,
      isolatesApiKeys,
      adminKey: flags.adminKey,
      library,
      reports: flags.reports,
      schedulingPolicy: flags.schedulingPolicy,
      pages: pagePolicy(flags.allowedOrigins, apiKeys.length > 0, flags.host),
      limits: {
        ...DEFAULT_LIMITS,
        // A request that never fits the queue gets a final error; after 429 a client would retry forever.
        maxSequencesPerRequest: Math.min(
          DEFAULT_LIMITS.maxSequencesPerRequest,
          engine.info.maxNumSeqs + flags.maxWaitingRequests,
        ),
      },
      logger,
      unknownFields: flags.unknownFields,
      templateDefaults: flags.defaultChatTemplateKwargs,
      toolCallParser: flags.toolCallParser,
      reasoningParser: flags.reasoningParser,
      history,
      events,
      targets: flags.slo,
      ...(flags.seed === undefined ? {} : { drawSeed: seedsFrom(flags.seed) }),
      host: flags.host,
      port: flags.port,
      certificate,
    });
    stage.done(server.url);
    logThroughput(logger, () => [{ about: {}, counts: countsOf(engine) }]);
    const sharing = describeSharing("keys", apiKeys, isolatesApiKeys);
    return { ...started, server, uses, modelNames, needsApiKey: apiKeys.length > 0, sharing };
  } catch (thrown) {
    await engine.close();
    throw thrown;
  }
}

/** The model of `--quantization`, under the name of its source model. */
async function quantisedCopyFor(
  { quantization, model }: ServerFlags,
  numThreads: number,
  startStage: StartStage,
): Promise<Omit<LocatedModel, "files"> | undefined> {
  if (quantization === undefined) return undefined;
  const { methodOf, QUANTIZATIONS, quantisedCopy } = await import("../../compress/at-load.js");
  const method = methodOf(quantization);
  if (method === undefined) throw optionError("--quantization", `one of ${QUANTIZATIONS.join(", ")}`, quantization);
  const { path, name } = await locateModel(model, startStage);
  // Exiting removes the unfinished copy; a signal alone would leave it.
  const stopListening = onStopSignals((exitCode) => process.exit(exitCode));
  try {
    return { path: await quantisedCopy(path, method, numThreads, startStage), name };
  } finally {
    stopListening();
  }
}

/** Lists the server in `millrace ps`. */
export function registerInstance({ server, modelNames, uses }: ServingInstance): void {
  registerServer({ url: server.url, models: modelNames, uses, kind: "engine", version: packageVersion() });
}

/**
 * Keeps the process running until a signal. SIGTERM and SIGINT finish the running requests and exit with 0; a second
 * one exits at once. If the engine dies, the process exits with 1.
 */
export function stayUntilStopped({ server, engine }: ServingInstance, onDraining: () => void = () => {}): void {
  let isStopping = false;
  const stop = async (): Promise<void> => {
    onDraining();
    await server.drain();
    // If the engine dies in the meantime, the handler below ends the process.
    await Promise.race([engine.drain(), engine.failure]);
    // Exiting would wait for the thread that cannot end.
    if ((await engine.close()) === "stuck") process.kill(process.pid, "SIGKILL");
    process.exit(0);
  };
  const onSignal = withoutRepeats((signal) => {
    if (isStopping) process.exit(signal === "SIGINT" ? 130 : 143);
    isStopping = true;
    stop().catch((thrown: unknown) => process.exit(reportError(thrown, { json: false })));
  });
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  engine.failure.catch(async (thrown: unknown) => {
    const exitCode = reportError(thrown, { json: false });
    // Open requests have their error; no open connection may keep a dead server alive.
    await server.close();
    process.exit(exitCode);
  });
}
