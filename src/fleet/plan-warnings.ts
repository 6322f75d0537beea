/**
 * Warnings about a plan in effect: tenants that share cached prefixes, memory too small for the always-loaded models,
 * and short keys.
 */
import type { Logger } from "pino";
import { ADAPTERS } from "./adapters/index.js";
import type { FleetConfig } from "./config/schema.js";
import { operatorsOf } from "./config/sections/operators.js";
import { tenantsApart } from "./gateway/authorize.js";
import type { PlannedModel } from "./plan-models.js";
import { cachesPrefixes, promptPathsOf, sharesDrafts, WAY_TO_SHARE } from "./proxy/isolation.js";
import type { ModelSpec } from "./upstream/model-spec.js";

/** 128 bits in letters and digits. */
const SAFE_KEY_LENGTH = 22;

export function warnOfPlan(config: FleetConfig, planned: readonly PlannedModel[], logger: Logger): void {
  if (tenantsApart(config)) {
    for (const { spec } of planned) warnOfSharing(config, spec, logger);
  }
  warnOfMemory(config, planned, logger);
  const short = operatorsOf(config).filter(({ key }) => key.reveal().length < SAFE_KEY_LENGTH);
  if (short.length === 0) return;
  const fields = { operators: short.map(({ name }) => name), hint: "make them with openssl rand -hex 32" };
  logger.warn(fields, `keys of operators with fewer than ${SAFE_KEY_LENGTH} characters may be guessed`);
}

/**
 * Whether tenants share a paid API's cached prompts. They do unless the operator forbids it, since such an API cannot
 * separate them.
 */
export function sharesProvider(config: FleetConfig, { attach = [] }: ModelSpec): boolean {
  return config.isolateApiKeys !== true && attach.some(({ provider }) => provider !== undefined);
}

/** Some engines cannot keep tenants apart on some paths. */
function warnOfSharing(config: FleetConfig, spec: ModelSpec, logger: Logger): void {
  const { name: model, engine } = spec;
  const { isolated, refused } = promptPathsOf(engine);
  const warn = (fields: object, message: string) => logger.warn({ model, engine, ...fields }, message);
  if (sharesDrafts(spec)) warn({}, "drafts come from the earlier requests of all tenants, and may reveal them");
  if (sharesProvider(config, spec)) {
    warn({}, "tenants share what the paid API caches of their prompts; isolate-api-keys: true refuses such requests");
    return;
  }
  if (ADAPTERS[engine].cacheScope === "header" || !cachesPrefixes(spec)) return;
  warn(
    { isolated, refused },
    `the engine can keep tenants' cached prefixes apart on the isolated paths only, and the others are refused; ${WAY_TO_SHARE}`,
  );
}

function warnOfMemory({ memoryBudget: budgetBytes }: FleetConfig, planned: readonly PlannedModel[], logger: Logger) {
  const always = planned.flatMap(({ kept }) => kept ?? []).filter(({ rules }) => rules.min > 0);
  const alwaysBytes = always.reduce((sum, { rules, estimatedBytes }) => sum + rules.min * estimatedBytes, 0);
  if (budgetBytes === undefined || alwaysBytes <= budgetBytes) return;
  logger.warn({ budgetBytes, alwaysBytes }, "models that are always loaded need more than the memory-budget");
}
