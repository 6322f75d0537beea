/** Runs models/training/train.py: finds a suitable Python, shows the output, and stops the trainer so that it saves. */
import { execFile, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { cacheFolder } from "../core/cache-folder.js";
import { MillraceError } from "../core/errors.js";
import { packageRoot } from "../core/package-root.js";
import type { GgufFile, GgufTensor } from "../formats/gguf/types.js";

const NEEDED = "torch numpy tokenizers gguf";
/** Prints missing packages without importing them, because importing torch takes seconds. */
const PROBE = `import importlib.util, sys; print(*(n for n in sys.argv[1].split() if importlib.util.find_spec(n) is None))`;
const MAX_ERROR_LINES = 12;

/** Python of the environment that the command in `python_missing` creates. */
function ownPython(environment: NodeJS.ProcessEnv): string {
  return join(cacheFolder(environment), "python", "bin", "python");
}

/**
 * A Python with the packages for training: MILLRACE_PYTHON, else the environment in our cache folder, else python3.
 *
 * @param needed names of packages; absent: those of models/training/train.py
 * @throws MillraceError python_missing with the command that installs it
 */
export async function findPython(
  environment: NodeJS.ProcessEnv = process.env,
  needed: string = NEEDED,
): Promise<string> {
  const { MILLRACE_PYTHON: chosen } = environment;
  const own = ownPython(environment);
  const python = chosen || (existsSync(own) ? own : "python3");
  const problem = await promisify(execFile)(python, ["-c", PROBE, needed], { env: environment }).then(
    ({ stdout }) => stdout.trim() && `none of ${stdout.trim().split(" ").join(", ")}`,
    ({ code, stderr }: { code?: unknown; stderr?: string }) =>
      code === "ENOENT" ? "no such program" : `a failure: ${stderr?.trim().split("\n").at(-1)}`,
  );
  if (problem === "") return python;
  const make = chosen ? "" : `python3 -m venv "${join(cacheFolder(environment), "python")}" && `;
  const packages = needed === NEEDED ? `-r "${join(packageRoot(), "models", "requirements.txt")}"` : needed;
  const named = needed.split(" ").join(", ");
  throw new MillraceError("python_missing", `expected ${python} with ${named} for training, got ${problem}`, {
    hint: `run: ${make}"${chosen || own}" -m pip install ${packages} (Python 3.10 or newer)`,
  });
}

/** Types of weights that models/training/export.py reads. */
const TRAINABLE_TYPES = /^(F16|F32|Q8_0)$/;

/** The reason why the trainer cannot read a model; undefined: the trainer can. */
export function untrainable({ metadata, tensors }: GgufFile, needs: "tokenizer" | "network"): string | undefined {
  const architecture = metadata.string("general.architecture");
  if (needs === "network" && architecture !== "llama") return `architecture ${architecture}`;
  const isOdd = ({ name, type }: GgufTensor): boolean => name === "output.weight" || !TRAINABLE_TYPES.test(type);
  const odd = needs === "network" ? [...tensors.values()].find(isOdd) : undefined;
  if (odd !== undefined) return `tensor ${odd.name} of type ${odd.type}`;
  const kind = `${metadata.string("tokenizer.ggml.model")}/${metadata.string("tokenizer.ggml.pre")}`;
  // Name of the only kind of tokenizer that models/training/chats.py writes.
  if (kind !== "gpt2/starcoder") return `tokenizer ${kind}`;
  const specials = metadata.strings("tokenizer.ggml.tokens")?.slice(0, 3).join(" ");
  return specials === "<|endoftext|> <|im_start|> <|im_end|>" ? undefined : "other special tokens";
}

const trainerFolder = (): string => join(packageRoot(), "models", "training");

/** The trainer's own code: another version may not read this one's checkpoints. */
export function trainerSource(): string {
  const names = readdirSync(trainerFolder()).filter((name) => name.endsWith(".py") && !name.startsWith("test_"));
  return names
    .sort()
    .map((name) => readFileSync(join(trainerFolder(), name), "utf8"))
    .join("");
}

interface Training {
  readonly python: string;
  /** Arguments of train.py, its command first. */
  readonly args: readonly string[];
  /** Folder by the --run and --steps among these. */
  readonly runFolder: string;
  readonly steps: number;
  onLine(line: string): void;
}

/** Final results on held-out chats, from a run's log. */
export interface HeldOutLog {
  /** Nats per answer token; the family "all" covers all families. */
  readonly losses: Readonly<Record<string, number>>;
  /** Number of chats that fit into the context, and of those among them whose end does not fit. */
  readonly numUsed: number;
  readonly numCut: number;
}

interface LogEntry {
  readonly step: number;
  readonly held_out?: Record<string, number>;
  readonly chats?: { readonly used: number; readonly cut: number };
}

/**
 * Resolves when the training ends. After an abort, the trainer saves first.
 *
 * @throws MillraceError training_failed with the end of its output
 */
export async function train(
  { python, args, runFolder, steps, onLine }: Training,
  signal: AbortSignal,
): Promise<HeldOutLog> {
  await runScript(python, join(trainerFolder(), "train.py"), args, onLine, signal);
  return heldOutLog(runFolder, steps);
}

/** Writes a trained file's matrices as Q8_0. Throws as `train` does. */
export function quantize(python: string, source: string, target: string, signal: AbortSignal): Promise<void> {
  return runScript(
    python,
    join(trainerFolder(), "quantize.py"),
    ["--model", source, "--out", target],
    () => {},
    signal,
  );
}

/** Shows the lines of a program's output. Throws training_failed with the end of its error output. */
export async function runScript(
  python: string,
  script: string,
  args: readonly string[],
  onLine: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  // Spinning threads would keep the cores from other programs. The program has its own process group, so Ctrl-C reaches
  // it once, through us.
  const env = { ...process.env, OMP_WAIT_POLICY: "PASSIVE", PYTHONUNBUFFERED: "1" };
  const child = spawn(python, [script, ...args], { stdio: ["ignore", "pipe", "pipe"], env, detached: true });
  const stop = (): void => {
    child.kill("SIGTERM");
  };
  signal.addEventListener("abort", stop, { once: true });
  let errors = "";
  let rest = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = `${errors}${text}`.split("\n").slice(-MAX_ERROR_LINES).join("\n");
  });
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const lines = `${rest}${text}`.split("\n");
    rest = lines.pop()!;
    for (const line of lines) onLine(line);
  });
  try {
    const exitCode = await new Promise<number | string>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, by) => resolve(code ?? by ?? "nothing"));
    });
    signal.throwIfAborted();
    if (exitCode !== 0) throw failure(`expected ${basename(script)} to end with 0, got ${exitCode}:\n${errors.trim()}`);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

const failure = (message: string): MillraceError =>
  new MillraceError("training_failed", message, { hint: "the same command resumes from the last checkpoint" });

/** Throws training_failed for a run that stopped before its last step: such a run also saves and exits with success. */
export function heldOutLog(runFolder: string, steps: number): HeldOutLog {
  const lines = readFileSync(join(runFolder, "log.jsonl"), "utf8").trim().split("\n");
  const entries = lines.map((line) => JSON.parse(line) as LogEntry);
  const losses = entries.findLast((entry) => entry.held_out !== undefined && entry.step === steps)?.held_out;
  if (losses === undefined) {
    throw failure(`expected training up to step ${steps}, got its end at step ${entries.at(-1)?.step ?? 0}`);
  }
  const { used = 0, cut = 0 } = entries.findLast(({ chats }) => chats !== undefined)?.chats ?? {};
  return { losses, numUsed: used, numCut: cut };
}
