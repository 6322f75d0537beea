/**
 * Builds the files that an engine loads, if the model must be compiled first: determines the result's inputs, and runs
 * the steps whose results are not kept.
 */
import { execFile } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join, resolve } from "node:path";
import { cacheFolder } from "../../core/cache-folder.js";
import { MillraceError } from "../../core/errors.js";
import type { Adapter } from "../adapters/adapter.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import { cachedBuild, fingerprint } from "./build-cache.js";

/** The builder imports its complete engine before it prints its version. */
const QUESTION_TIMEOUT_MS = 120_000;
/** As in TensorRT-LLM's log of its import, or on a separate line: other lines also have numbers. */
const VERSION = /version[:\s]+v?(\d+\.\d+[\w.+-]*)|^v?(\d+\.\d+[\w.+-]*)$/im;

interface BuildContext {
  readonly adapter: Adapter;
  readonly spec: ModelSpec;
  /** Environment of the instance, which names its visible GPUs. */
  readonly env: NodeJS.ProcessEnv;
  /** Resolves when the command succeeds. */
  run(command: readonly [string, ...string[]]): Promise<void>;
  onProgress(text: string): void;
  onNotice(text: string): void;
}

/** @returns the folder that the engine loads; undefined if it loads the model as it is */
export async function builtEngine(context: BuildContext, signal: AbortSignal): Promise<string | undefined> {
  const { adapter, spec, env, run, onProgress, onNotice } = context;
  const build = adapter.build?.(spec.options);
  if (build === undefined) return undefined;
  onProgress("looks for a build of this model, engine and GPU");
  const depends = {
    model: await identityOf(spec.options.model, env),
    version: await versionOf(build.versionCommand, env, signal),
    gpus: await gpusOf(env, signal),
  };
  let source = spec.options.model;
  let before = "";
  for (const [i, step] of build.steps.entries()) {
    const about = `${step.name}, step ${i + 1} of ${build.steps.length}`;
    onProgress(`looks for the ${about}`);
    source = await cachedBuild(
      {
        root: join(cacheFolder(env), "builds", adapter.name),
        name: step.name,
        // The step's command states all sizes, the parallelism and the quantisation.
        inputs: { ...depends, before, command: step.command("", "") },
        files: step.files,
        make: async (into) => {
          onProgress(`builds the ${about}`);
          await run(step.command(source, into));
        },
        onWait: () => onProgress(`waits for another that builds the ${about}`),
        onFault: onNotice,
      },
      signal,
    );
    before = basename(source);
  }
  return source;
}

/** A folder's content; for a repository on the hub, the downloaded revision. */
async function identityOf(model: string, env: NodeJS.ProcessEnv): Promise<object> {
  const about = await stat(model).catch(() => undefined);
  if (about?.isDirectory() === true) return { path: resolve(model), files: await fingerprint(model) };
  const hub = env.HF_HUB_CACHE ?? join(env.HF_HOME ?? join(homedir(), ".cache/huggingface"), "hub");
  const ref = join(hub, `models--${model.replaceAll("/", "--")}`, "refs/main");
  try {
    return { repository: model, revision: (await readFile(ref, "utf8")).trim() };
  } catch (thrown) {
    throw new MillraceError(
      "build_failed",
      `expected the model to build, ${model}, to be a folder or a repository that was downloaded, got neither`,
      { hint: `Download it first: its revision, ${ref}, says which build is its own.`, cause: thrown },
    );
  }
}

async function versionOf(
  command: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string> {
  const { output } = await ask(command, env, signal);
  const found = VERSION.exec(output);
  const version = found?.[1] ?? found?.[2];
  if (version !== undefined) return version;
  throw new MillraceError("build_failed", `expected ${command.join(" ")} to print its version, got ${quoted(output)}`, {
    hint: "Install a release with this builder, or remove `build-engine`: then the engine loads the model as it is.",
  });
}

/** Names and compute capabilities of the GPUs visible to the instance. */
async function gpusOf(env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<readonly string[]> {
  const visible = env.CUDA_VISIBLE_DEVICES ?? "";
  // nvidia-smi cannot select a slice of a GPU, so the identity has the slice's name and all GPUs.
  const isSlice = visible.includes("MIG");
  const selected = visible === "" || isSlice ? [] : ["-i", visible];
  const command = ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader", ...selected] as const;
  const { output, isSuccess } = await ask(command, env, signal);
  const gpus = output.split("\n").filter((line) => /,\s*\d+\.\d+\s*$/.test(line));
  if (isSuccess && gpus.length > 0) return [...new Set(isSlice ? [visible, ...gpus] : gpus)].sort();
  throw new MillraceError("build_failed", `expected nvidia-smi to name a GPU to build for, got ${quoted(output)}`, {
    hint: "A build is for one kind of GPU: start the fleet where its driver and GPUs are.",
  });
}

const quoted = (output: string): string => JSON.stringify(output.trim().slice(0, 200));

interface Reply {
  readonly output: string;
  readonly isSuccess: boolean;
}

/** Rejects once the signal aborts, since a killed program proves nothing about the builder. */
function ask(
  [program, ...args]: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<Reply> {
  return new Promise((done, fail) => {
    const limits = { timeout: QUESTION_TIMEOUT_MS, maxBuffer: 2 ** 22, killSignal: "SIGKILL" } as const;
    const child = execFile(program, args, { env, ...limits }, (error, stdout, stderr) => {
      signal.removeEventListener("abort", kill);
      if (signal.aborted) fail(new Error(`${program} was told to end`));
      else done({ output: stdout + stderr || (error?.message ?? ""), isSuccess: error === null });
    });
    // execFile's own signal sends SIGTERM, which a program may ignore.
    const kill = () => child.kill("SIGKILL");
    signal.addEventListener("abort", kill);
    if (signal.aborted) kill();
  });
}
