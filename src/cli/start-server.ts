/** What `serve` and `engine` share: flags, an engine with its HTTP server, and how the two end. */
import { type Command, Option } from "commander";
import { keepsApart } from "../core/cache-scope.js";
import { pagePolicy } from "../core/cors.js";
import { MillraceError } from "../core/errors.js";
import { createLogger, LOG_FORMATS, LOG_LEVELS, type LogFormat, type LogLevel } from "../core/log.js";
import { packageVersion } from "../core/package-root.js";
import { registerServer } from "../core/server-registry.js";
import type { UnknownFields } from "../serve/context.js";
import type { RunningServer } from "../serve/server.js";
import { TOOL_CALL_PARSERS, type ToolCallParserName } from "../text/answer/call-formats.js";
import { REASONING_PARSERS, type ReasoningParserName } from "../text/answer/reasoning.js";
import { describeSharing } from "./describe-access.js";
import { addEngineOptions } from "./engine-options.js";
import { addGenerationConfigOptions } from "./generation-config.js";
import { modelOption } from "./model.js";
import { integerIn, listOf, oneOf, seedValue } from "./option-values.js";
import { reportError } from "./report-error.js";
import type { StartStage } from "./stages.js";
import { type EngineSource, type StartedEngine, startEngineWithText } from "./start-engine.js";
import { withoutRepeats } from "./stop-signal.js";
import { countsOf, logThroughput } from "./throughput-log.js";

export interface ServerFlags extends EngineSource {
  readonly host: string;
  readonly port: number;
  readonly servedModelName?: readonly string[];
  readonly apiKey?: readonly string[];
  readonly isolateApiKeys?: boolean;
  readonly allowedOrigins?: readonly string[];
  readonly unknownFields: UnknownFields;
  readonly toolCallParser: ToolCallParserName;
  readonly reasoningParser: ReasoningParserName;
  readonly seed?: bigint;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
}

export interface ServingInstance extends StartedEngine {
  readonly server: RunningServer;
  readonly modelNames: readonly [string, ...string[]];
  readonly needsApiKey: boolean;
  /** What its keys share; absent: there are no two. */
  readonly sharing?: string | undefined;
}

export function addServerOptions(command: Command): Command {
  const option = <T>(flags: string, description: string, parse: (text: string) => T, defaultValue?: T): Option => {
    const made = new Option(flags, description).argParser(parse).helpGroup("Server:");
    return defaultValue === undefined ? made : made.default(defaultValue);
  };
  const list = (flags: string, description: string, flag: string): Option =>
    new Option(flags, description).argParser(listOf(flag)).helpGroup("Server:");
  command
    .addOption(modelOption())
    .addOption(option("--host <address>", "address to listen on", String, "127.0.0.1"))
    .addOption(option("--port <n>", "port to listen on; 0 = any free one", integerIn("--port", 0, 65_535), 8000))
    .addOption(list("--served-model-name <names>", "names the model answers to", "--served-model-name"))
    .addOption(
      list("--api-key <keys>", "keys that open the API; none = open to all", "--api-key").env("MILLRACE_API_KEY"),
    )
    .addOption(
      new Option(
        "--isolate-api-keys",
        "share cached prefixes only between requests of the same key (default: with several keys)",
      ).helpGroup("Server:"),
    )
    .addOption(new Option("--no-isolate-api-keys", "share them between all keys").helpGroup("Server:"))
    .addOption(
      list(
        "--allowed-origins <origins>",
        "origins browsers may call from, * = any (default: with keys any, without only the server's own pages)",
        "--allowed-origins",
      ),
    )
    .addOption(option("--chat-template <file>", "use this template instead of the model's own", String))
    .addOption(
      option(
        "--tool-call-parser <format>",
        "how tool calls are read from answers: auto (as the chat template shows), hermes, llama3_json, mistral",
        oneOf("--tool-call-parser", TOOL_CALL_PARSERS),
        "auto",
      ),
    )
    .addOption(
      option(
        "--reasoning-parser <format>",
        "whether <think>…</think> is split from answers: auto (where the model knows it), none, think",
        oneOf("--reasoning-parser", REASONING_PARSERS),
        "auto",
      ),
    )
    .addOption(
      option(
        "--unknown-fields <what>",
        "unknown request fields: error, or warn and ignore",
        oneOf("--unknown-fields", ["error", "warn"]),
        "error",
      ),
    )
    .addOption(
      new Option("--seed <n>", "seed of requests that bring none, so that a restart repeats them (default: random)")
        .argParser(seedValue("--seed"))
        .helpGroup("Server:"),
    )
    .addOption(option("--log-level <level>", LOG_LEVELS.join(", "), oneOf("--log-level", LOG_LEVELS), "info"))
    .addOption(
      option(
        "--log-format <format>",
        "lines for people (text), or json; auto: text on a terminal",
        oneOf("--log-format", LOG_FORMATS),
        "auto",
      ),
    );
  return addEngineOptions(addGenerationConfigOptions(command, "Server:"));
}

export function assertKeysToIsolate({ isolateApiKeys, apiKey = [] }: ServerFlags): void {
  if (isolateApiKeys !== true || apiKey.length > 0) return;
  throw new MillraceError("invalid_option", "expected --api-key beside --isolate-api-keys, got no keys", {
    hint: "Give each of those who share the server a key of its own.",
  });
}

export async function startInstance(flags: ServerFlags, startStage: StartStage): Promise<ServingInstance> {
  assertKeysToIsolate(flags);
  // Loaded beside the weights, not after them.
  const serving = Promise.all([
    import("../serve/server.js"),
    import("../serve/context.js"),
    import("../serve/seeds.js"),
  ]);
  serving.catch(() => {});
  const started = await startEngineWithText(flags, startStage);
  const { engine, tokenizer, asyncTokenizer, chatTemplate, name, samplingDefaults } = started;
  const [firstName = name, ...otherNames] = flags.servedModelName ?? [];
  const modelNames = [firstName, ...otherNames] as const;
  const apiKeys = flags.apiKey ?? [];
  const isolatesApiKeys = keepsApart(apiKeys, flags.isolateApiKeys);
  const stage = startStage("server");
  const logger = createLogger(flags.logLevel, flags.logFormat);
  try {
    const [{ startServer }, { DEFAULT_LIMITS }, { seedsFrom }] = await serving;
    const server = await startServer({
      engine,
      tokenizer,
      asyncTokenizer,
      chatTemplate,
      samplingDefaults,
      modelNames,
      apiKeys,
      isolatesApiKeys,
      schedulingPolicy: flags.schedulingPolicy,
      pages: pagePolicy(flags.allowedOrigins, apiKeys.length > 0, flags.host),
      limits: {
        ...DEFAULT_LIMITS,
        // What the queue never holds is refused for good; 429 would have the client try for ever.
        maxSequencesPerRequest: Math.min(
          DEFAULT_LIMITS.maxSequencesPerRequest,
          flags.maxNumSeqs + flags.maxWaitingRequests,
        ),
      },
      logger,
      unknownFields: flags.unknownFields,
      toolCallParser: flags.toolCallParser,
      reasoningParser: flags.reasoningParser,
      ...(flags.seed === undefined ? {} : { drawSeed: seedsFrom(flags.seed) }),
      host: flags.host,
      port: flags.port,
    });
    stage.done(server.url);
    logThroughput(logger, () => [{ about: {}, counts: countsOf(engine) }]);
    const sharing = describeSharing("keys", apiKeys, isolatesApiKeys);
    return { ...started, server, modelNames, needsApiKey: apiKeys.length > 0, sharing };
  } catch (thrown) {
    await engine.close();
    throw thrown;
  }
}

/** For `millrace ps`. */
export function registerInstance({ server, modelNames }: ServingInstance): void {
  registerServer({ url: server.url, models: modelNames, kind: "engine", version: packageVersion() });
}

/**
 * Keeps the process until it is told to stop: SIGTERM and SIGINT finish the running requests and exit with 0, a second one exits at once;
 * an engine that dies ends everything with 1.
 */
export function stayUntilStopped({ server, engine }: ServingInstance, onDraining: () => void = () => {}): void {
  let isStopping = false;
  const stop = async (): Promise<void> => {
    onDraining();
    await server.drain();
    // An engine that dies meanwhile rejects; its own handler below ends the process.
    await Promise.race([engine.drain(), engine.failure]);
    await engine.close();
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
    // Open requests have been told by now; a connection that does not close must not keep a dead server alive.
    await server.close();
    process.exit(exitCode);
  });
}
