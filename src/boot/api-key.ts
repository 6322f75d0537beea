/** The keys for a machine whose image has none: generated at the first boot, in files that only the server can read. */
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { MillraceError } from "../core/errors.js";
import { isLoopback } from "../core/loopback.js";
import type { FleetConfig } from "../fleet/config/schema.js";
import { needsKeys } from "../fleet/gateway/authorize.js";
import { KEY_VARIABLE, MADE_KEYS } from "../image/made-keys.js";

/**
 * Sets MILLRACE_API_KEY and MILLRACE_ADMIN_KEY if the configuration uses them and the environment lacks them.
 *
 * @returns their files in `folder`
 */
export function provideKeys(configText: string, folder: string, environment: NodeJS.ProcessEnv): readonly string[] {
  return MADE_KEYS.flatMap(({ variable, file: name }) => {
    const isGiven = (environment[variable] ?? "") !== "";
    if (isGiven || !configText.includes(`env:${variable}`)) return [];
    const file = join(folder, name);
    environment[variable] = readOrMakeKey(file, variable);
    return [file];
  });
}

/** Machines that share the folder share the first machine's key. */
function readOrMakeKey(file: string, variable: string): string {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw unusable(file, variable, cause);
  }
  try {
    const key = readFileSync(file, "utf8").trim();
    if (key !== "") return key;
  } catch (cause) {
    throw unusable(file, variable, cause);
  }
  throw unusable(file, variable, "an empty file");
}

function unusable(file: string, variable: string, cause: unknown): MillraceError {
  return new MillraceError("file_unreadable", `expected to keep a key in ${file}, got ${String(cause)}`, {
    hint: `give --state a folder that can be written, or set ${variable}`,
    cause,
  });
}

/** Throws config_conflict for a server that is open to other machines without a key. */
export function assertClosed(config: FleetConfig, file: string): void {
  const { host } = config;
  if (isLoopback(host) || needsKeys(config)) return;
  throw new MillraceError("config_conflict", `expected api-keys in ${file} for host ${host}, got none`, {
    hint: `write api-keys: [{tenant: default, key: env:${KEY_VARIABLE}}], or host: 127.0.0.1`,
  });
}
