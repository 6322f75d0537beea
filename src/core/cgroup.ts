/** Finds this process's control groups, and reads small text files of /proc and /sys. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The file's text, trimmed; undefined if the file is missing or unreadable. */
export function readText(path: string): string | undefined {
  try {
    return existsSync(path) ? readFileSync(path, "utf8").trim() : undefined;
  } catch {
    // Some files below /sys and /proc exist but refuse to be read; they count as missing.
    return undefined;
  }
}

/**
 * The process's own cgroup and its ancestors, since each may have a limit.
 * @param controller controller of version 1; absent: version 2
 */
export function cgroupFolders(root: string, controller?: string): readonly string[] {
  const lines = (readText(join(root, "proc/self/cgroup")) ?? "").split("\n").map((line) => line.split(":"));
  const own = lines.find(([id, names]) =>
    controller === undefined ? id === "0" && names === "" : names?.split(",").includes(controller),
  );
  const parts = (own?.slice(2).join(":") ?? "").split("/").filter((part) => part !== "" && part !== "..");
  const mount = join(root, "sys/fs/cgroup", controller ?? "");
  return [...parts.keys(), parts.length].map((depth) => join(mount, ...parts.slice(0, depth)));
}
