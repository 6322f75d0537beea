/** `serve`'s flags that make a fleet of it, and the configuration that they stand for. */

import type { Command } from "commander";
import { Option } from "commander";
import { MillraceError } from "../../core/errors.js";
import type { FleetConfig } from "../../fleet/config/schema.js";
import { integerIn, listOf } from "./option-values.js";
import { assertKeysToIsolate, type ServerFlags } from "./server-options.js";

export interface FleetFlags extends ServerFlags {
  readonly config?: string;
  readonly instances?: number | "auto";
  readonly attach?: readonly string[];
}

const MAX_INSTANCES = 256;

export function addFleetOptions(command: Command): Command {
  const parseInstances = (text: string): number | "auto" =>
    text === "auto" ? text : integerIn("--instances", 1, MAX_INSTANCES)(text);
  const options = [
    new Option("--config <file>", "serve what a millrace.yaml describes: several models, instances, engines"),
    new Option(
      "--instances <n>",
      "processes that serve the model; auto: as many as are measured to be fastest, once",
    ).argParser(parseInstances),
    new Option("--attach <urls>", "servers of the model that run already").argParser(listOf("--attach")),
  ];
  for (const option of options) command.addOption(option.helpGroup("Fleet:"));
  return command;
}

export function isFleet({ config, instances, attach }: FleetFlags): boolean {
  return config !== undefined || instances !== undefined || attach !== undefined;
}

interface WrittenFlag {
  readonly flag: string;
  /** As typed, with its value. */
  readonly words: readonly string[];
}

/** The flags among words that a command knows, as they were written. */
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

/** What the fleet sees to itself; every other flag is the engine's and is handed to its processes. */
const FLEET_FLAGS = [
  "--config",
  "--instances",
  "--attach",
  "--model",
  "--served-model-name",
  "--host",
  "--port",
  "--api-key",
  "--isolate-api-keys",
  "--no-isolate-api-keys",
  "--allowed-origins",
  "--log-level",
  "--log-format",
];

/** The gateway draws the seeds of requests that have none, for whichever instance answers. */
function assertNoSeed(written: readonly WrittenFlag[]): void {
  if (!written.some(({ flag }) => flag === "--seed")) return;
  throw new MillraceError("invalid_option", "expected no --seed beside --instances and --attach, got one", {
    hint: "give requests a seed of their own, or serve one instance",
  });
}

/** Servers that run already have their own flags. */
function assertNoneForAttached([unfit]: readonly WrittenFlag[]): void {
  if (unfit === undefined) return;
  throw new MillraceError("invalid_option", `expected no ${unfit.flag} for servers that are attached, got one`, {
    hint: "start them with it, or serve instances alone",
  });
}

function assertConfigAlone(written: readonly WrittenFlag[]): void {
  const other = written.find(({ flag }) => flag !== "--config");
  if (other === undefined) return;
  throw new MillraceError("invalid_option", `expected --config alone, got ${other.flag} beside it`, {
    hint: "write it into the file: keys are named like the flags",
  });
}

/** The name that an attached server gives its model. */
async function askForName(url: string): Promise<string> {
  const complain = (got: string, cause?: unknown): MillraceError =>
    new MillraceError("invalid_option", `expected ${url}/v1/models to name a model, got ${got}`, {
      hint: "check the URL, or name the model with --served-model-name",
      cause,
    });
  const answer = await fetch(`${url}/v1/models`, { signal: AbortSignal.timeout(10_000) }).catch((cause: unknown) => {
    throw complain("no answer", cause);
  });
  const body = (await answer.json().catch(() => undefined)) as { data?: [{ id?: unknown }] } | undefined;
  const id = body?.data?.[0]?.id;
  if (typeof id !== "string") throw complain(`status ${answer.status}`);
  return id;
}

/** @param typed words, without the command */
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
  assertNoSeed(written);
  const { apiKey = [], attach = [], instances } = flags;
  const ofEngine = written.filter(({ flag }) => !FLEET_FLAGS.includes(flag));
  const isAttachedOnly = instances === undefined && flags.model === undefined;
  if (isAttachedOnly)
    assertNoneForAttached([...ofEngine, ...written.filter(({ flag }) => flag === "--isolate-api-keys")]);
  // Of all instances together: each gets its part.
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
    "log-level": flags.logLevel,
    "log-format": flags.logFormat,
    "allowed-origins": flags.allowedOrigins,
    "isolate-api-keys": flags.isolateApiKeys,
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
  const where = parsed.error.issues[0]?.path.join(".") ?? "";
  throw new MillraceError("invalid_option", `expected valid flags, got others (${where})`, {
    hint: "--attach takes URLs such as http://127.0.0.1:8101, without a path",
  });
}
