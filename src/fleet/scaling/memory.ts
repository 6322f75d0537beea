/** How much memory a model takes: measured on its processes, or estimated from its files before it ever ran. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // Processes end while one looks at them, and not every system has /proc.
    return "";
  }
}

/** A process and everything it started: engines compute in workers. */
function familyOf(pid: number, root: string): readonly number[] {
  const children = readText(join(root, `proc/${pid}/task/${pid}/children`)).trim();
  const family = children === "" ? [] : children.split(" ").flatMap((child) => familyOf(Number(child), root));
  return [pid, ...family];
}

/**
 * Resident bytes of a process and its children; undefined where the system does not tell. Pages of mapped files count in each process that has touched
 * them, so that instances sharing weights look larger together than they are.
 * @param root "/" except in tests
 */
export function residentBytes(pid: number, root = "/"): number | undefined {
  const kibibytes = familyOf(pid, root).map((each) =>
    Number(/^VmRSS:\s+(\d+) kB$/m.exec(readText(join(root, `proc/${each}/status`)))?.[1] ?? 0),
  );
  const total = 1024 * kibibytes.reduce((sum, each) => sum + each, 0);
  return total > 0 ? total : undefined;
}

/** Size of a file, of all shards of a split one, or of a folder's files; undefined: nothing of the kind lies there. */
export function modelFileBytes(path: string): number | undefined {
  try {
    const stats = statSync(path);
    if (stats.isFile()) return shardBytes(path) ?? stats.size;
    const files = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isFile());
    return files.reduce((sum, { name }) => sum + statSync(join(path, name)).size, 0);
  } catch {
    // A name that the engine fetches, or a path that it will complain about itself.
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

/** The program and its buffers, beside weights and KV memory. */
const PROGRAM_BYTES = 128 * 2 ** 20;

/** Before it ever ran. @returns undefined: the size of the weights is not known */
export function estimateBytes(modelPath: string, kvCacheMemoryBytes = 0): number | undefined {
  const weights = modelFileBytes(modelPath);
  return weights === undefined ? undefined : weights + kvCacheMemoryBytes + PROGRAM_BYTES;
}
