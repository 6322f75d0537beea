/** Compares a new configuration with the running fleet's. */
import { isDeepStrictEqual } from "node:util";
import type { FleetConfig } from "./config/schema.js";
import { fixedCacheKeys } from "./gateway/cache-policies.js";
import type { PlannedModel } from "./plan-models.js";

/** Result of a reload, as names of models and keys. */
export interface Reload {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Models whose instances are replaced by new processes. */
  readonly replaced: readonly string[];
  /** Changed keys that take effect only at the next start. */
  readonly needRestart: readonly string[];
}

interface Planned {
  readonly config: FleetConfig;
  readonly planned: readonly PlannedModel[];
}

interface Changes {
  readonly added: readonly PlannedModel[];
  /** Names of models. */
  readonly removed: readonly string[];
  readonly replaced: readonly PlannedModel[];
  /** Models that lose their own instances because they became attached-only, or get them back. */
  readonly turned: readonly PlannedModel[];
  readonly needRestart: readonly string[];
}

/** Settings that a reload cannot change: key in the file, by property. */
const FIXED_AT_START = {
  host: "host",
  port: "port",
  dataFolder: "data-folder",
  reports: "reports",
  telemetry: "telemetry",
  logLevel: "log-level",
  logFormat: "log-format",
  managedKeys: "managed-keys",
  oidc: "oidc",
  signIn: "sign-in",
  ledger: "ledger",
  alerts: "alerts",
  quality: "quality",
  conversations: "conversations",
  hooks: "hooks",
} as const;

export function changesOf(before: Planned, after: Planned): Changes {
  const { config, planned } = after;
  const earlier = new Map(before.planned.map((each) => [each.spec.name, each]));
  const added = planned.filter(({ spec }) => !earlier.has(spec.name));
  const replaced = planned.filter((each) => isReplaced(earlier.get(each.spec.name), each));
  const isTurned = ({ spec, kept }: PlannedModel) =>
    (earlier.get(spec.name)?.kept === undefined) !== (kept === undefined);
  const fixed = Object.entries(FIXED_AT_START)
    .filter(([property]) => !isDeepStrictEqual(config[property as "host"], before.config[property as "host"]))
    .map(([, key]) => key);
  return {
    added,
    removed: [...earlier.keys()].filter((name) => !planned.some(({ spec }) => spec.name === name)),
    replaced,
    turned: planned.filter((each) => !added.includes(each) && !replaced.includes(each) && isTurned(each)),
    needRestart: [...fixed, ...fixedCacheKeys(config, before.config)],
  };
}

/**
 * Whether a change needs new processes. All parts of a specification do, except the number of instances and the drain
 * timeout.
 */
function isReplaced(before: PlannedModel | undefined, after: PlannedModel): boolean {
  if (before === undefined) return false;
  const ofProcesses = ({ instances, drainTimeoutMs, ...rest }: PlannedModel["spec"]) => rest;
  return !isDeepStrictEqual(ofProcesses(before.spec), ofProcesses(after.spec));
}
