/** `--instances auto`: measures how many instances serve a model fastest on this machine, once, and keeps the answer in the cache folder. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, mkdirSync, openSync, readFileSync, readSync, renameSync, statSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { cacheFolder } from "../core/cache-folder.js";
import { MillraceError } from "../core/errors.js";
import { packageRoot, packageVersion } from "../core/package-root.js";
import { chooseSplit, type MeasuredSplit, type Split, splitsOf } from "../fleet/scaling/instance-plan.js";

export interface SplitQuestion {
  /** A file or folder on this machine. */
  readonly modelPath: string;
  /** CPUs of each physical core that may be used; none: the system chooses. */
  readonly cores: readonly (readonly number[])[];
  /** Requests at once. */
  readonly concurrency: number;
  /** Flags of the engine that change its speed. */
  readonly engineArgs: readonly string[];
}

export interface SplitAnswer {
  readonly chosen: Split;
  readonly measured: readonly MeasuredSplit[];
  readonly wasKnown: boolean;
}

/** Short enough to wait for, long enough for both phases to show. */
const PROMPT_TOKENS = 128;
const GEN_TOKENS = 48;
const REPETITIONS = 3;
const TIMEOUT_MS = 10 * 60_000;
const FINGERPRINT_BYTES = 1 << 20;

/** Size, first and last MiB: reading all of a large file would take longer than the measurement. */
function fingerprint(path: string): string {
  const hash = createHash("sha256");
  const { size, mtimeMs } = statSync(path);
  hash.update(`${size}`);
  if (statSync(path).isDirectory()) return hash.update(`${path} ${mtimeMs}`).digest("hex");
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(Math.min(size, FINGERPRINT_BYTES));
    for (const offset of [0, size - bytes.length]) {
      readSync(file, bytes, 0, bytes.length, offset);
      hash.update(bytes);
    }
  } finally {
    closeSync(file);
  }
  return hash.digest("hex");
}

/** Whatever the answer depends on. */
function keyOf({ modelPath, cores, concurrency, engineArgs }: SplitQuestion): string {
  const parts = [fingerprint(modelPath), cores, concurrency, engineArgs, cpus()[0]?.model, packageVersion()];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32);
}

function readKept(file: string): readonly MeasuredSplit[] {
  try {
    const kept: unknown = JSON.parse(readFileSync(file, "utf8"));
    const isSplit = (each: unknown): each is MeasuredSplit =>
      ["instances", "coresPerInstance", "tokensPerS"].every((key) => Number.isFinite((each as never)?.[key]));
    return Array.isArray(kept) && kept.every(isSplit) ? kept : [];
  } catch {
    // Not there, or half written: it is measured again.
    return [];
  }
}

function keep(file: string, measured: readonly MeasuredSplit[]): void {
  mkdirSync(dirname(file), { recursive: true });
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, JSON.stringify(measured));
  renameSync(draft, file);
}

/** What one instance of a split does beside the others, as `millrace bench engine` sees it. */
async function benchOne(
  question: SplitQuestion,
  place: Readonly<Record<string, string | number>>,
  batch: number,
  signal: AbortSignal,
): Promise<number> {
  const command = join(packageRoot(), "bin/millrace.js");
  const flags = {
    model: question.modelPath,
    ...place,
    batch,
    "prompt-tokens": PROMPT_TOKENS,
    "gen-tokens": GEN_TOKENS,
    repetitions: REPETITIONS,
  };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [command, "bench", "engine", "--json", ...args, ...question.engineArgs],
    { timeout: TIMEOUT_MS, maxBuffer: 1 << 24, signal },
  );
  const { results } = JSON.parse(stdout) as { results: [{ prefillTokensPerS: number; decodeTokensPerS: number }] };
  const [{ prefillTokensPerS, decodeTokensPerS }] = results;
  const seconds = batch * (PROMPT_TOKENS / prefillTokensPerS + GEN_TOKENS / decodeTokensPerS);
  return (batch * GEN_TOKENS) / seconds;
}

/** All instances of the split at the same time, each on its cores and with its part of the requests. */
async function measure(
  question: SplitQuestion,
  { instances, coresPerInstance }: Split,
  signal: AbortSignal,
): Promise<MeasuredSplit> {
  const runs = Array.from({ length: instances }, (_, i) => {
    const own = question.cores.slice(i * coresPerInstance, (i + 1) * coresPerInstance);
    // One thread for each physical core.
    const threads = own.flatMap(([first]) => first ?? []);
    const place = threads.length > 0 ? { "cpu-affinity": threads.join(",") } : { threads: own.length };
    return benchOne(question, place, Math.ceil(question.concurrency / instances), signal);
  });
  const speeds = await Promise.all(runs);
  return { instances, coresPerInstance, tokensPerS: speeds.reduce((sum, each) => sum + each, 0) };
}

/** Runs that measure end with their task, and with us: nobody else would end them. */
async function withRuns<T>(task: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ended = new AbortController();
  const end = () => ended.abort();
  process.on("exit", end);
  try {
    return await task(ended.signal);
  } finally {
    end();
    process.off("exit", end);
  }
}

const fileOf = (question: SplitQuestion): string => join(cacheFolder(), "plans", `${keyOf(question)}.json`);

/** What was measured before; undefined: nothing. */
export function keptSplit(question: SplitQuestion): SplitAnswer | undefined {
  const measured = readKept(fileOf(question));
  const chosen = chooseSplit(measured);
  return chosen === undefined ? undefined : { chosen, measured, wasKnown: true };
}

/** What was measured before, else now, on a machine that does nothing else meanwhile. @param onMeasured called after each split */
export async function bestSplit(
  question: SplitQuestion,
  onMeasured: (measured: MeasuredSplit) => void,
): Promise<SplitAnswer> {
  const known = keptSplit(question);
  if (known !== undefined) return known;
  const measured: MeasuredSplit[] = [];
  await withRuns(async (signal) => {
    // One after the other: they would take each other's cores.
    for (const split of splitsOf(question.cores.length, question.concurrency)) {
      measured.push(await measure(question, split, signal));
      onMeasured(measured.at(-1)!);
    }
  });
  const chosen = chooseSplit(measured);
  if (chosen === undefined) throw new MillraceError("internal_error", "expected a split of the cores, got none");
  keep(fileOf(question), measured);
  return { chosen, measured, wasKnown: false };
}
