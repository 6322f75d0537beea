/** Memory that this process can still get, from its machine and from the tightest cgroup around it. */
import { freemem } from "node:os";
import { join } from "node:path";
import { cgroupFolders, readText } from "./cgroup.js";

/**
 * Memory left in a cgroup. The kernel counts cached files as used but drops them when memory is short, so they are
 * subtracted: otherwise a model that was only read or downloaded would count as a model in use.
 */
function leftIn(folder: string, limitFile: string, usageFile: string, ofTree: string): number {
  const [limit, usage] = [limitFile, usageFile].map((file) => Number(readText(join(folder, file)) ?? Number.NaN));
  // The limit is "max", or a file is missing.
  if (!(limit! >= 0 && usage! >= 0)) return Number.POSITIVE_INFINITY;
  const stat = readText(join(folder, "memory.stat")) ?? "";
  const sizes = ["inactive_file", "active_file"].map((name) => new RegExp(`^${ofTree}${name} (\\d+)`, "m").exec(stat));
  return Math.max(0, limit! - Math.max(0, usage! - sizes.reduce((sum, size) => sum + Number(size?.[1] ?? 0), 0)));
}

/** In bytes. @param root "/" except in tests, which create their own /proc and /sys */
export function availableMemory(root = "/", freeBytes = freemem()): number {
  return Math.min(
    freeBytes,
    ...cgroupFolders(root).map((folder) => leftIn(folder, "memory.max", "memory.current", "")),
    ...cgroupFolders(root, "memory").map((folder) =>
      leftIn(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ),
  );
}
