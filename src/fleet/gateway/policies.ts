/** The gateway's policies as the configuration asks for them, from the first to see a request to the last. */
import { usageAsker } from "../../gateway/ask-usage.js";
import type { Policy } from "../../gateway/pipeline.js";
import { ModelAccess } from "../../gateway/tenants/model-access.js";
import { hasTenants } from "./authorize.js";
import { createLimits } from "./budget-policy.js";
import { createExactCache, createIdempotency } from "./cache-policies.js";
import { createGuardrails, createLangfuse, createRecorder } from "./hook-policies.js";
import { createLengths } from "./length-policy.js";
import type { PolicyContext } from "./policy-context.js";
import { createSemanticCache } from "./semantic-policy.js";

/**
 * A policy that the configuration does not ask for is left out, so that requests pay for nothing. The caches stand
 * behind the routes, and know the model that is asked. What changes a body for the upstream stands behind the caches:
 * they, and retries, know the client's request. A cascade asks two models at once, within one reservation of money, and
 * so behind the budgets.
 */
export async function createPolicies(context: PolicyContext): Promise<readonly Policy[]> {
  const { config, models, observing, virtual, canary } = context;
  const langfuse = createLangfuse(context);
  const recorder = createRecorder(context);
  const limits = createLimits(context);
  const wanted = await Promise.all([
    hasTenants(config()) ? new ModelAccess((name) => models.resolve(name) ?? name) : undefined,
    langfuse?.outer,
    recorder?.outer,
    createGuardrails(context),
    langfuse?.inner,
    recorder?.inner,
    limits,
    createIdempotency(context),
    ...virtual.routing,
    // Before the caches, which keep answers of the canary apart, and again for the models of a cascade.
    canary,
    createExactCache(context),
    createSemanticCache(context),
    limits.upstream,
    createLengths(context),
    usageAsker,
    virtual.cascade,
    canary,
  ]);
  return [...observing, ...wanted.filter((policy) => policy !== undefined)];
}
