/** Flags of one engine behind HTTP, shared by `serve` and `engine`. */
import { type Command, Option } from "commander";
import { MillraceError } from "../../core/errors.js";
import { LOG_FORMATS, LOG_LEVELS, type LogFormat, type LogLevel } from "../../core/log.js";
import { optionError } from "../../core/option-error.js";
import { parseLatencyTargets, type Slo } from "../../core/slo.js";
import type { SamplingSource } from "../../local/sampling.js";
import type { UnknownFields } from "../../serve/http/context.js";
import { isShallow, MAX_KWARGS_DEPTH, RESERVED_KWARGS } from "../../serve/openai/template-kwargs.js";
import { TOOL_CALL_PARSERS, type ToolCallParserName } from "../../text/answer/call-formats.js";
import { REASONING_PARSERS, type ReasoningParserName } from "../../text/answer/reasoning.js";
import { addEngineOptions, type EngineFlags } from "./engine-options.js";
import { addGenerationConfigOptions } from "./generation-config.js";
import { modelOption } from "./model-option.js";
import { integerIn, jsonObject, listOf, oneOf, seedValue } from "./option-values.js";

export interface ServerFlags extends EngineFlags, SamplingSource {
  readonly model?: string;
  readonly quantization?: string;
  readonly chatTemplate?: string;
  readonly defaultChatTemplateKwargs?: Readonly<Record<string, unknown>>;
  readonly host: string;
  readonly port: number;
  readonly sslCertfile?: string;
  readonly sslKeyfile?: string;
  readonly servedModelName?: readonly string[];
  readonly apiKey?: readonly string[];
  readonly adminKey?: string;
  readonly reports?: string;
  readonly isolateApiKeys?: boolean;
  readonly allowedOrigins?: readonly string[];
  readonly unknownFields: UnknownFields;
  readonly toolCallParser: ToolCallParserName;
  readonly reasoningParser: ReasoningParserName;
  readonly historyFile?: string;
  readonly slo?: Slo;
  readonly seed?: bigint;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
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
    .addOption(
      option(
        "--quantization <type>",
        "serve a quantised copy, which is made once: int8, int4, or a type of millrace quantize",
        String,
      ),
    )
    .addOption(option("--host <address>", "address to listen on", String, "127.0.0.1"))
    .addOption(option("--port <n>", "port to listen on; 0 = any free port", integerIn("--port", 0, 65_535), 8000))
    .addOption(option("--ssl-certfile <file>", "serve HTTPS with this certificate, as PEM with its chain", String))
    .addOption(option("--ssl-keyfile <file>", "private key of the certificate, as PEM", String))
    .addOption(
      list("--served-model-name <names>", "names of the model in requests, separated by commas", "--served-model-name"),
    )
    .addOption(
      list("--api-key <keys>", "API keys, separated by commas; none = open to everyone", "--api-key").env(
        "MILLRACE_API_KEY",
      ),
    )
    .addOption(
      option("--admin-key <key>", "key that opens /admin, where models are pulled and removed", adminKey).env(
        "MILLRACE_ADMIN_KEY",
      ),
    )
    .addOption(
      option(
        "--reports <folder>",
        "list and compare what bench, tune, eval and plan wrote here, for the administrator (default: none)",
        String,
      ),
    )
    .addOption(
      new Option(
        "--isolate-api-keys",
        "share cached prefixes only between requests with the same key (default with several keys)",
      ).helpGroup("Server:"),
    )
    .addOption(new Option("--no-isolate-api-keys", "share cached prefixes between all keys").helpGroup("Server:"))
    .addOption(
      list(
        "--allowed-origins <origins>",
        "origins that browsers may call from, * = any (default: any with keys, else only the server's own pages)",
        "--allowed-origins",
      ),
    )
    .addOption(
      option("--history-file <file>", "keep the dashboard's last week here, in 200 KiB (default: in memory)", String),
    )
    .addOption(
      option(
        "--slo <targets>",
        "targets of 95 requests in 100, which the dashboard shows: chat, rag, code, or limits such as ttft=200ms,tpot=33ms",
        parseLatencyTargets,
      ),
    )
    .addOption(option("--chat-template <file>", "use this template instead of the model's own", String))
    .addOption(
      option(
        "--default-chat-template-kwargs <json>",
        'arguments of the template that requests may replace, such as {"enable_thinking": false}',
        templateKwargs("--default-chat-template-kwargs"),
      ),
    )
    .addOption(
      option(
        "--tool-call-parser <format>",
        `format of tool calls in answers: auto (by the chat template), ${TOOL_CALL_PARSERS.slice(1).join(", ")}`,
        oneOf("--tool-call-parser", TOOL_CALL_PARSERS),
        "auto",
      ),
    )
    .addOption(
      option(
        "--reasoning-parser <format>",
        `reasoning to split from answers: auto (by the markers of template and vocabulary, or Harmony's channels), ${REASONING_PARSERS.slice(1).join(", ")}`,
        oneOf("--reasoning-parser", REASONING_PARSERS),
        "auto",
      ),
    )
    .addOption(
      option(
        "--unknown-fields <what>",
        "handling of unknown request fields: error, or warn and ignore",
        oneOf("--unknown-fields", ["error", "warn"]),
        "error",
      ),
    )
    .addOption(
      new Option("--seed <n>", "seed for requests without one, so that runs repeat (default: random)")
        .argParser(seedValue("--seed"))
        .helpGroup("Server:"),
    )
    .addOption(option("--log-level <level>", LOG_LEVELS.join(", "), oneOf("--log-level", LOG_LEVELS), "info"))
    .addOption(
      option(
        "--log-format <format>",
        "text (for people) or json; auto: text on a terminal",
        oneOf("--log-format", LOG_FORMATS),
        "auto",
      ),
    );
  return addEngineOptions(addGenerationConfigOptions(command, "Server:"));
}

function templateKwargs(flag: string): (text: string) => Readonly<Record<string, unknown>> {
  const read = jsonObject(flag);
  return (text) => {
    const kwargs = read(text);
    if (isShallow(kwargs) && !RESERVED_KWARGS.some((name) => Object.hasOwn(kwargs, name))) return kwargs;
    const expected = `an object nested at most ${MAX_KWARGS_DEPTH} deep, without the server's own`;
    throw optionError(flag, `${expected} ${RESERVED_KWARGS.join(", ")}`, text);
  };
}

function adminKey(text: string): string {
  if (/^\S+$/.test(text)) return text;
  throw optionError("--admin-key", "a key without spaces", text === "" ? "none" : "one with spaces");
}

export function assertKeysToIsolate({ isolateApiKeys, apiKey = [] }: ServerFlags): void {
  if (isolateApiKeys !== true || apiKey.length > 0) return;
  throw new MillraceError("invalid_option", "expected --api-key with --isolate-api-keys, got no keys", {
    hint: "give each user of the server a key of its own",
  });
}

export function assertCertificatePair({ sslCertfile, sslKeyfile }: ServerFlags): void {
  if ((sslCertfile === undefined) === (sslKeyfile === undefined)) return;
  const message = "expected --ssl-certfile and --ssl-keyfile together, got one of them";
  throw new MillraceError("invalid_option", message, { hint: "give the certificate and its key" });
}

export function assertAdminReads({ reports, adminKey: key }: ServerFlags): void {
  if (reports === undefined || key !== undefined) return;
  throw new MillraceError("invalid_option", "expected --admin-key with --reports, got no key", {
    hint: "reports are for who has the administrator's key",
  });
}
