/** Folders for files that can be created again. */
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

/** MILLRACE_CACHE, otherwise $XDG_CACHE_HOME/millrace, otherwise ~/.cache/millrace. */
export function cacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const { MILLRACE_CACHE: own, XDG_CACHE_HOME: shared } = environment;
  if (own !== undefined && own !== "") return own;
  // The XDG Base Directory Specification says to ignore a relative XDG_CACHE_HOME.
  if (shared !== undefined && isAbsolute(shared)) return join(shared, "millrace");
  return join(homedir(), ".cache", "millrace");
}

/** The folder of logs: MILLRACE_LOGS, for machines that share a cache; otherwise a folder in the cache. */
export function logFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const { MILLRACE_LOGS: own } = environment;
  return own !== undefined && own !== "" ? own : join(cacheFolder(environment), "logs");
}

/** The folder of packed weights. */
export function packFolder(): string {
  return join(cacheFolder(), "packed");
}
