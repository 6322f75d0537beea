/** Flags of `serve` that start a fleet, and their configuration. */

import type { Command } from "commander";
import { Option } from "commander";
import { MillraceError } from "../../core/errors.js";
import { noAnswer } from "../../core/no-answer.js";
import type { FleetConfig } from "../../fleet/config/schema.js";
import { integerIn, listOf } from "./option-values.js";
import { assertAdminReads, assertCertificatePair, assertKeysToIsolate, type ServerFlags } from "./server-options.js";

export interface FleetFlags extends ServerFlags {
  readonly config?: string;
  readonly instances?: number | "auto";
  readonly attach?: readonly string[];
  readonly keepConversations?: boolean;
}

const MAX_INSTANCES = 256;

export function addFleetOptions(command: Command): Command {
  const parseInstances = (text: string): number | "auto" =>
    text === "auto" ? text : integerIn("--instances", 1, MAX_INSTANCES)(text);
  const options = [
    new Option("--config <file>", "serve the models, instances and engines of a millrace.yaml"),
    new Option("--instances <n>", "processes that serve the model; auto: the fastest number, measured once").argParser(
      parseInstances,
    ),
    new Option("--attach <urls>", "URLs of running servers of the model, separated by commas").argParser(
      listOf("--attach"),
    ),
    new Option(
      "--keep-conversations",
      "keep the app's conversations, for each API key its own, in the gateway's folder (needs --instances or --attach)",
    ),
  ];
  for (const option of options) command.addOption(option.helpGroup("Fleet:"));
  return command;
}

export function isFleet({ config, instances, attach }: FleetFlags): boolean {
  return config !== undefined || instances !== undefined || attach !== undefined;
}

/** Throws invalid_option without a gateway to keep conversations, or without keys to distinguish clients. */
export function assertConversationsHaveOwners(flags: FleetFlags): void {
  if (flags.keepConversations !== true || flags.config !== undefined) return;
  const message = (missing: string) => `expected ${missing} with --keep-conversations, got none`;
  if (!isFleet(flags)) {
    const hint = "a gateway keeps them: --instances 1 puts one in front of the model";
    throw new MillraceError("invalid_option", message("--instances or --attach"), { hint });
  }
  if ((flags.apiKey ?? []).length > 0) return;
  const hint = "without keys all clients are one, and would read each other's";
  throw new MillraceError("invalid_option", message("--api-key"), { hint });
}

interface WrittenFlag {
  readonly flag: string;
  /** The flag as typed, with its value. */
  readonly words: readonly string[];
}

/** The command's flags among the words, as typed. */
export function writtenFlags(command: Command, words: readonly string[]): readonly WrittenFlag[] {
  const written: WrittenFlag[] = [];
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const flag = word.split("=", 1)[0]!;
    const option = command.options.find((each) => each.long === flag || each.short === flag);
    if (option === undefined) continue;
    const takesNext = option.required && !word.includes("=");
    written.push({ flag, words: takesNext ? [word, words[++i] ?? ""] : [word] });
  }
  return written;
}

/** Flags for the fleet; all others go to the engine's processes. */
const FLEET_FLAGS = [
  "--config",
  "--instances",
  "--attach",
  "--keep-conversations",
  "--slo",
  "--model",
  "--served-model-name",
  "--host",
  "--port",
  "--ssl-certfile",
  "--ssl-keyfile",
  "--api-key",
  "--admin-key",
  "--reports",
  "--isolate-api-keys",
  "--no-isolate-api-keys",
  "--allowed-origins",
  "--log-level",
  "--log-format",
];

/** One server's flags that conflict with a gateway's own work → the alternative. */
const OF_ONE_SERVER: ReadonlyMap<string, string> = new Map([
  ["--seed", "give each request a seed, or serve one instance"],
  ["--history-file", "write a file with a data-folder, where the gateway keeps its history, and serve it by --config"],
]);

function assertNoneOfOneServer(written: readonly WrittenFlag[]): void {
  for (const { flag } of written) {
    const hint = OF_ONE_SERVER.get(flag);
    if (hint === undefined) continue;
    throw new MillraceError("invalid_option", `expected no ${flag} with --instances or --attach, got one`, { hint });
  }
}

/** Attached servers run with their own flags already. */
function assertNoneForAttached([unfit]: readonly WrittenFlag[]): void {
  if (unfit === undefined) return;
  throw new MillraceError("invalid_option", `expected no ${unfit.flag} with attached servers only, got one`, {
    hint: "give the flag to the attached servers, or leave out --attach",
  });
}

function assertConfigAlone(written: readonly WrittenFlag[]): void {
  const other = written.find(({ flag }) => flag !== "--config");
  if (other === undefined) return;
  throw new MillraceError("invalid_option", `expected --config alone, got ${other.flag} too`, {
    hint: "write the setting into the file: its keys are named like the flags",
  });
}

/** Asks an attached server for the model's name. */
async function askForName(url: string): Promise<string> {
  const complain = (got: string, cause?: unknown): MillraceError =>
    new MillraceError("invalid_option", `expected ${url}/v1/models to name a model, got ${got}`, {
      hint: "check the URL, or give --served-model-name",
      cause,
    });
  const answer = await fetch(`${url}/v1/models`, { signal: AbortSignal.timeout(10_000) }).catch((cause: unknown) => {
    throw complain(noAnswer(cause), cause);
  });
  const body = (await answer.json().catch(() => undefined)) as { data?: [{ id?: unknown }] } | undefined;
  const id = body?.data?.[0]?.id;
  if (typeof id !== "string") throw complain(`status ${answer.status}`);
  return id;
}

/** @param typed the words of the command line after the command */
export async function fleetConfigFrom(
  flags: FleetFlags,
  command: Command,
  typed: readonly string[],
): Promise<FleetConfig> {
  const written = writtenFlags(command, typed);
  const { readConfig } = await import("../../fleet/config/read-config.js");
  if (flags.config !== undefined) {
    assertConfigAlone(written);
    return readConfig(flags.config, process.env);
  }
  const { configSchema } = await import("../../fleet/config/schema.js");
  assertKeysToIsolate(flags);
  assertAdminReads(flags);
  assertCertificatePair(flags);
  assertConversationsHaveOwners(flags);
  assertNoneOfOneServer(written);
  const { apiKey = [], attach = [], instances } = flags;
  const ofEngine = written.filter(({ flag }) => !FLEET_FLAGS.includes(flag));
  const isAttachedOnly = instances === undefined && flags.model === undefined;
  if (isAttachedOnly)
    assertNoneForAttached([...ofEngine, ...written.filter(({ flag }) => flag === "--isolate-api-keys")]);
  // The CPUs are divided among the instances.
  const args = ofEngine.filter(({ flag }) => flag !== "--cpu-affinity").flatMap(({ words }) => words);
  const cores = flags.cpuAffinity?.join(",");
  const { bundledModelPath, nameOf } = await import("../../formats/locate-model.js");
  const model = isAttachedOnly ? undefined : (flags.model ?? bundledModelPath());
  const [name, ...aliases] = flags.servedModelName ?? [
    model === undefined ? await askForName(attach[0]!) : nameOf(model),
  ];
  const parsed = configSchema(process.env).safeParse({
    host: flags.host,
    port: flags.port,
    "ssl-certfile": flags.sslCertfile,
    "ssl-keyfile": flags.sslKeyfile,
    "log-level": flags.logLevel,
    "log-format": flags.logFormat,
    "allowed-origins": flags.allowedOrigins,
    "admin-key": flags.adminKey,
    reports: flags.reports,
    "isolate-api-keys": flags.isolateApiKeys,
    slo: flags.slo?.name,
    ...(flags.keepConversations === true ? { conversations: {} } : {}),
    "api-keys": apiKey.map((key, index) => ({ tenant: `key-${index + 1}`, key })),
    models: [
      {
        name,
        aliases,
        ...(isAttachedOnly ? { engine: "openai" } : { model, instances: instances ?? 1, args, cores }),
        attach: attach.map((url) => ({ url })),
      },
    ],
  });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue?.path.join(".") ?? "";
  throw new MillraceError("invalid_option", `expected flags of a fleet, got ${where}: ${issue?.message}`, {
    hint: "--attach takes URLs such as http://127.0.0.1:8101, without a path",
  });
}
