/**
 * `instances: auto`: measures once how many instances serve a model fastest on this machine, and stores the result in
 * the cache folder.
 */
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { cpus } from "node:os";
import { dirname, join } from "node:path";
import { cacheFolder } from "../../core/cache-folder.js";
import { MillraceError } from "../../core/errors.js";
import { packageVersion } from "../../core/package-root.js";
import { chooseSplit, type MeasuredSplit, type Split, splitsOf } from "../../fleet/scaling/instance-plan.js";

export interface SplitQuestion {
  /** A file or folder on this machine, or a name that the engine finds itself. */
  readonly modelPath: string;
  /** Number of cores, or GPUs, to divide. */
  readonly numUnits: number;
  /** Concurrent requests on all instances together. */
  readonly concurrency: number;
  /** Everything else that the result depends on. */
  readonly conditions: unknown;
  measure(split: Split): Promise<MeasuredSplit>;
}

interface SplitAnswer {
  readonly chosen: Split;
  readonly measured: readonly MeasuredSplit[];
  readonly wasKnown: boolean;
}

const FINGERPRINT_BYTES = 1 << 20;

/**
 * Hashes a file's size, first and last MiB, because reading all of a large file would take longer than the measurement.
 */
function fingerprint(path: string): string {
  const hash = createHash("sha256");
  if (!existsSync(path)) return path;
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

/** Names of the GPUs that NVIDIA's driver knows. */
export function gpuModels(folder = "/proc/driver/nvidia/gpus"): string[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).map((name) => readFileSync(join(folder, name, "information"), "utf8"));
  return names.flatMap((text) => /^Model:\s*(.+)$/m.exec(text)?.[1] ?? []);
}

/** Hashes everything that the result depends on. */
function keyOf({ modelPath, concurrency, conditions }: SplitQuestion): string {
  const parts = [fingerprint(modelPath), concurrency, conditions, cpus()[0]?.model, gpuModels(), packageVersion()];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32);
}

function readKept(file: string): readonly MeasuredSplit[] {
  try {
    const kept: unknown = JSON.parse(readFileSync(file, "utf8"));
    const isSplit = (each: unknown): each is MeasuredSplit =>
      ["instances", "perInstance", "tokensPerS"].every((key) => Number.isFinite((each as never)?.[key]));
    return Array.isArray(kept) && kept.every(isSplit) ? kept : [];
  } catch {
    // If the file is missing or incomplete, the split is measured again.
    return [];
  }
}

function keep(file: string, measured: readonly MeasuredSplit[]): void {
  mkdirSync(dirname(file), { recursive: true });
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, JSON.stringify(measured));
  renameSync(draft, file);
}

const fileOf = (question: SplitQuestion): string => join(cacheFolder(), "plans", `${keyOf(question)}.json`);

/** The result of an earlier measurement, if there is one. */
export function keptSplit(question: SplitQuestion): SplitAnswer | undefined {
  const measured = readKept(fileOf(question));
  const chosen = chooseSplit(measured);
  return chosen === undefined ? undefined : { chosen, measured, wasKnown: true };
}

/**
 * The stored result, or a new measurement, which needs an otherwise idle machine. A split that cannot start, for
 * instance for lack of memory, counts with 0 tokens/s; if none can, throws the last one's error.
 *
 * @param onMeasured called after each split, with the error of a failed one
 */
export async function bestSplit(
  question: SplitQuestion,
  onMeasured: (measured: MeasuredSplit, error?: unknown) => void,
): Promise<SplitAnswer> {
  const known = keptSplit(question);
  if (known !== undefined) return known;
  const measured: MeasuredSplit[] = [];
  // Splits are measured one after another, because they compete for the same cores.
  let lastError: unknown = new MillraceError("internal_error", "expected a split of the machine, got none");
  for (const split of splitsOf(question.numUnits, question.concurrency)) {
    try {
      measured.push(await question.measure(split));
      onMeasured(measured.at(-1)!);
    } catch (thrown) {
      lastError = thrown;
      measured.push({ ...split, tokensPerS: 0 });
      onMeasured(measured.at(-1)!, thrown);
    }
  }
  const chosen = chooseSplit(measured);
  if (chosen === undefined || chosen.tokensPerS === 0) throw lastError;
  keep(fileOf(question), measured);
  return { chosen, measured, wasKnown: false };
}
