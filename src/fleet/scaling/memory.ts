/** Memory of a model: measured on its processes, or before its first run estimated from its files. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // A process may have ended, and some systems have no /proc.
    return "";
  }
}

/** A process and its descendants, since some engines compute in worker processes. */
function familyOf(pid: number, root: string): readonly number[] {
  const children = readText(join(root, `proc/${pid}/task/${pid}/children`)).trim();
  const family = children === "" ? [] : children.split(" ").flatMap((child) => familyOf(Number(child), root));
  return [pid, ...family];
}

/**
 * Resident bytes of a process and its descendants; undefined if the system does not report them. A page of a mapped
 * file
 * counts in every process that has touched it, so the sum over instances with shared weights is too large.
 * @param root "/" except in tests
 */
export function residentBytes(pid: number, root = "/"): number | undefined {
  const kibibytes = familyOf(pid, root).map((each) =>
    Number(/^VmRSS:\s+(\d+) kB$/m.exec(readText(join(root, `proc/${each}/status`)))?.[1] ?? 0),
  );
  const total = 1024 * kibibytes.reduce((sum, each) => sum + each, 0);
  return total > 0 ? total : undefined;
}

/**
 * Bytes of a model file, of all its shards, or of the files in a model folder; undefined if the path does not exist.
 */
export function modelFileBytes(path: string): number | undefined {
  try {
    const stats = statSync(path);
    if (stats.isFile()) return shardBytes(path) ?? stats.size;
    const files = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isFile());
    return files.reduce((sum, { name }) => sum + statSync(join(path, name)).size, 0);
  } catch {
    // The path is a name that the engine downloads, or a mistake that the engine will report.
    return undefined;
  }
}

function shardBytes(path: string): number | undefined {
  const [, stem, of] = /([^/]*)-\d{5}-of-(\d{5})\.gguf$/.exec(path) ?? [];
  if (stem === undefined) return undefined;
  const shards = readdirSync(dirname(path)).filter(
    (name) => name.startsWith(`${stem}-`) && name.endsWith(`-of-${of}.gguf`),
  );
  return shards.reduce((sum, name) => sum + statSync(join(dirname(path), name)).size, 0);
}

/** Allowance for the program and its buffers, beside weights and KV memory. */
const PROGRAM_BYTES = 128 * 2 ** 20;

/** Estimate for one instance before its first run. @returns undefined if the size of the weights is unknown */
export function estimateBytes(modelPath: string, kvCacheMemoryBytes = 0): number | undefined {
  const weights = modelFileBytes(modelPath);
  return weights === undefined ? undefined : weights + kvCacheMemoryBytes + PROGRAM_BYTES;
}
