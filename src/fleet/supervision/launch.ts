/** Builds the command of an instance from its model's specification: flags, cores, GPUs, environment and files. */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { inheritedEnvironment } from "../../core/engine-environment.js";
import { MillraceError } from "../../core/errors.js";
import type { Adapter, LaunchPlace, LaunchPlan } from "../adapters/adapter.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import type { CacheEventSockets } from "../upstream/upstream.js";
import { canRun } from "./engine-process.js";

interface Launch {
  readonly command: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
  readonly modelName: string | undefined;
  readonly cacheEvents: CacheEventSockets | undefined;
  readonly notices: readonly string[];
}

/**
 * Arguments that may redirect the cache events (vLLM's --config names a file of arguments), or start several
 * publishers,
 * which cannot share a Unix socket.
 */
const OWN_EVENTS = /^--(kv[-_]events[-_]config|data[-_]parallel|config(=|$))|^-dp/;

const HELP_TIMEOUT_MS = 30_000;

/** @param slot number of the instance, which determines its cores and GPUs */
export async function prepareLaunch(
  adapter: Adapter,
  spec: ModelSpec,
  slot: number,
  place: Omit<LaunchPlace, "followsCache">,
): Promise<Launch> {
  const program = spec.program ?? adapter.program;
  if (program === undefined) {
    throw new MillraceError(
      "invalid_option",
      `expected servers to attach for engine ${spec.engine}, got instances to start`,
      {
        hint: "Give their URLs, or name the engine to start.",
      },
    );
  }
  const help = adapter.helpCommand === undefined ? undefined : await helpOf(adapter.helpCommand(program));
  const options = {
    ...spec.options,
    servedModelName: spec.options.servedModelName ?? spec.name,
    ...(spec.scaleDown === "sleep" && adapter.sleep !== undefined ? { enableSleepMode: true } : {}),
  };
  const followsCache = !spec.args.some((argument) => OWN_EVENTS.test(argument));
  const plan = adapter.launch(options, program, { ...place, followsCache }, help);
  if (plan.needsFolder === true) await mkdir(place.folder, { recursive: true });
  await writeFiles(plan);
  const pinned = await pinnedTo(coresOf(spec, slot));
  return {
    command: [...pinned.prefix, ...plan.command, ...spec.args] as unknown as [string, ...string[]],
    env: environmentOf(spec, slot, plan.env),
    modelName: plan.modelName,
    cacheEvents: plan.cacheEvents,
    notices: [...plan.notices, ...pinned.notices],
  };
}

/** The slot's share of a list; after the last item, shares start over. */
export function shareOf<T>(all: readonly T[], perInstance: number, slot: number): readonly T[] {
  const size = Math.max(1, Math.min(perInstance, all.length));
  const numShares = Math.floor(all.length / size);
  const start = (slot % numShares) * size;
  return all.slice(start, start + size);
}

function coresOf({ cores, coresPerInstance, instances }: ModelSpec, slot: number): readonly number[] {
  if (cores === undefined || cores.length === 0) return [];
  return shareOf(cores, coresPerInstance ?? Math.floor(cores.length / Math.max(1, instances)), slot).flat();
}

async function pinnedTo(
  cores: readonly number[],
): Promise<{ readonly prefix: readonly string[]; readonly notices: readonly string[] }> {
  if (cores.length === 0) return { prefix: [], notices: [] };
  const list = cores.join(",");
  return (await canRun("taskset", process.env))
    ? { prefix: ["taskset", "-c", list], notices: [] }
    : { prefix: [], notices: [`not pinned to cores ${list}: expected taskset (of util-linux) in PATH, got none`] };
}

/** @param own the adapter's variables; the configuration's override them */
export function environmentOf(spec: ModelSpec, slot: number, own: LaunchPlan["env"] = {}): NodeJS.ProcessEnv {
  const { tensorParallelSize: tp = 1, dataParallelSize: dp = 1, buildEngine } = spec.options;
  const { gpus, gpusPerInstance = tp * dp * (buildEngine?.pipelineParallelSize ?? 1) } = spec;
  const ownGpus = gpus === undefined || gpus.length === 0 ? [] : shareOf(gpus, gpusPerInstance, slot);
  return {
    ...inheritedEnvironment(),
    ...(ownGpus.length === 0 ? {} : { CUDA_VISIBLE_DEVICES: ownGpus.join(",") }),
    ...own,
    ...spec.env,
  };
}

async function writeFiles({ files = {} }: LaunchPlan): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { mode: 0o600 });
  }
}

/** Output of the command, even if it exits with an error code; undefined if it cannot run. */
async function helpOf(command: readonly [string, ...string[]]): Promise<string | undefined> {
  const [program, ...args] = command;
  try {
    const { stdout, stderr } = await promisify(execFile)(program, args, {
      timeout: HELP_TIMEOUT_MS,
      maxBuffer: 2 ** 22,
    });
    return stdout + stderr;
  } catch {
    return undefined;
  }
}
