/** Compares a new configuration with the running fleet's. */
import { isDeepStrictEqual } from "node:util";
import { Secret } from "../core/config-values.js";
import type { FleetConfig } from "./config/schema.js";
import { fixedCacheKeys } from "./gateway/cache-policies.js";
import type { PlannedModel } from "./plan-models.js";

/** Result of a reload: names of models and keys. */
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
  /** Model names. */
  readonly removed: readonly string[];
  readonly replaced: readonly PlannedModel[];
  /** Models that lose their own instances because they became attached-only, or get them back. */
  readonly turned: readonly PlannedModel[];
  readonly needRestart: readonly string[];
}

/** Settings that only a restart changes: key in the file, by property. */
const FIXED_AT_START = {
  host: "host",
  port: "port",
  sslCertfile: "ssl-certfile",
  sslKeyfile: "ssl-keyfile",
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

/** Such parts of settings, and policies that exist from the start if any model asks for them. */
const FIXED_PARTS: Readonly<Record<string, (config: FleetConfig) => unknown>> = {
  "budgets.store": ({ budgets }) => budgets.store,
  "budgets.url": ({ budgets }) => budgets.url,
  "budgets.store-timeout": ({ budgets }) => budgets.storeTimeout,
  "timeouts.connect": ({ timeouts }) => timeouts.connect,
  "timeouts.stalled-client": ({ timeouts }) => timeouts.stalledClient,
  "semantic-cache": ({ models }) => models.some(({ semanticCache }) => semanticCache !== undefined),
};

/** Names of changed keys that take effect only at the next start. */
function fixedKeys(after: FleetConfig, before: FleetConfig): readonly string[] {
  const isSame = (now: unknown, then: unknown) => isDeepStrictEqual(revealed(now), revealed(then));
  const settings = Object.entries(FIXED_AT_START)
    .filter(([property]) => !isSame(after[property as "host"], before[property as "host"]))
    .map(([, key]) => key);
  const parts = Object.keys(FIXED_PARTS).filter((key) => !isSame(FIXED_PARTS[key]!(after), FIXED_PARTS[key]!(before)));
  return [...settings, ...parts, ...fixedCacheKeys(after, before)];
}

/** Settings with visible secrets, since a secret also hides its value from comparisons. */
function revealed(value: unknown): unknown {
  if (value instanceof Secret) return value.reveal();
  if (Array.isArray(value)) return value.map(revealed);
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, revealed(each)]));
}

const isPlainObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;

export function changesOf(before: Planned, after: Planned): Changes {
  const { config, planned } = after;
  const earlier = new Map(before.planned.map((each) => [each.spec.name, each]));
  const added = planned.filter(({ spec }) => !earlier.has(spec.name));
  const replaced = planned.filter((each) => isReplaced(earlier.get(each.spec.name), each));
  const isTurned = ({ spec, kept }: PlannedModel) =>
    (earlier.get(spec.name)?.kept === undefined) !== (kept === undefined);
  return {
    added,
    removed: [...earlier.keys()].filter((name) => !planned.some(({ spec }) => spec.name === name)),
    replaced,
    turned: planned.filter((each) => !added.includes(each) && !replaced.includes(each) && isTurned(each)),
    needRestart: fixedKeys(config, before.config),
  };
}

/**
 * Whether a change needs new processes: it does for all parts of a specification except the number of instances and the
 * drain timeout.
 */
function isReplaced(before: PlannedModel | undefined, after: PlannedModel): boolean {
  if (before === undefined) return false;
  const ofProcesses = ({ instances, drainTimeoutMs, ...rest }: PlannedModel["spec"]) => rest;
  return !isDeepStrictEqual(ofProcesses(before.spec), ofProcesses(after.spec));
}
