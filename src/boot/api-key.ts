/**
 * The API key of a machine whose image has none: generated at the first boot, in a file that only the server can read.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { MillraceError } from "../core/errors.js";
import { isLoopback } from "../core/loopback.js";
import type { FleetConfig } from "../fleet/config/schema.js";
import { needsKeys } from "../fleet/gateway/authorize.js";
import { KEY_VARIABLE } from "../image/image-fleet.js";

/**
 * Sets MILLRACE_API_KEY where the configuration asks for it and the environment lacks it.
 *
 * @returns whether the key comes from the file
 */
export function provideKey(configText: string, file: string, environment: NodeJS.ProcessEnv): boolean {
  const isGiven = (environment[KEY_VARIABLE] ?? "") !== "";
  if (isGiven || !configText.includes(`env:${KEY_VARIABLE}`)) return false;
  environment[KEY_VARIABLE] = readOrMakeKey(file);
  return true;
}

/** Machines that share the folder share the first one's key. */
function readOrMakeKey(file: string): string {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw unusable(file, cause);
  }
  try {
    const key = readFileSync(file, "utf8").trim();
    if (key !== "") return key;
  } catch (cause) {
    throw unusable(file, cause);
  }
  throw unusable(file, "an empty file");
}

function unusable(file: string, cause: unknown): MillraceError {
  return new MillraceError("file_unreadable", `expected to keep an API key in ${file}, got ${String(cause)}`, {
    hint: `give --state a folder that can be written, or set ${KEY_VARIABLE}`,
    cause,
  });
}

/** Throws config_conflict for a server that other machines reach without a key. */
export function assertClosed(config: FleetConfig, file: string): void {
  const { host } = config;
  if (isLoopback(host) || needsKeys(config)) return;
  throw new MillraceError("config_conflict", `expected api-keys in ${file} for host ${host}, got none`, {
    hint: `write api-keys: [{tenant: default, key: env:${KEY_VARIABLE}}], or host: 127.0.0.1`,
  });
}
