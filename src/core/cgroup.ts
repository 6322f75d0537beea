/** Where this process's control groups are, and the small text files of /proc and /sys. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The file's text, trimmed; undefined if there is no such file or it cannot be read. */
export function readText(path: string): string | undefined {
  try {
    return existsSync(path) ? readFileSync(path, "utf8").trim() : undefined;
  } catch {
    // Some files below /sys and /proc may exist and yet refuse to be read; that is the same as not knowing.
    return undefined;
  }
}

/**
 * The process's own cgroup and those above it: a limit may be set on any.
 * @param controller of version 1; absent: version 2
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
