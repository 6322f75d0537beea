/** The gateway's policies as the configuration asks for them, from the first to see a request to the last. */
import { usageAsker } from "../../gateway/ask-usage.js";
import { HandedLimits } from "../../gateway/budget/handed-limits.js";
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
 * Lines that a provider's batch endpoint answers pass some of the policies twice: those that may refuse or change a
 * request before it is handed over, and those that look at an answer and account for it when it has come. Caches are
 * not asked, and a handed model is asked by its own name, so that no route chooses.
 */
export interface HandedPolicies {
  readonly limits: HandedLimits;
  readonly preparing: readonly Policy[];
  readonly booking: readonly Policy[];
  /** Resolves when kill -9 can take no charge and no row of the ledger away that was booked so far. */
  readonly booked: () => Promise<void>;
}

interface Policies {
  readonly all: readonly Policy[];
  readonly handed: HandedPolicies;
}

/**
 * A policy that the configuration does not ask for is left out, so that requests pay for nothing. The caches stand
 * behind the routes, and know the model that is asked. What changes a body for the upstream stands behind the caches:
 * they, and retries, know the client's request. A cascade asks two models at once, within one reservation of money, and
 * so behind the budgets.
 */
export async function createPolicies(context: PolicyContext): Promise<Policies> {
  const { config, models, ledger, observing, virtual, canary } = context;
  const langfuse = createLangfuse(context);
  const recorder = createRecorder(context);
  const limits = createLimits(context);
  const handedLimits = new HandedLimits(limits);
  const access = hasTenants(config()) ? new ModelAccess((name) => models.resolve(name) ?? name) : undefined;
  const guardrails = createGuardrails(context);
  const lengths = createLengths(context);
  const wanted = await Promise.all([
    access,
    langfuse?.outer,
    recorder?.outer,
    guardrails,
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
    lengths,
    usageAsker,
    virtual.cascade,
    canary,
  ]);
  const whole = (policies: readonly (Policy | undefined)[]) => policies.filter((policy) => policy !== undefined);
  return {
    all: [...observing, ...whole(wanted)],
    handed: {
      limits: handedLimits,
      preparing: whole([access, guardrails, handedLimits.preparing, lengths]),
      // What the provider has answered is charged, whatever guardrails say of it.
      booking: [
        ...observing,
        ...whole([langfuse?.outer, recorder?.outer, handedLimits.booking]),
        ...whole([guardrails?.booking, langfuse?.inner, recorder?.inner, lengths]),
      ],
      booked: async () => {
        await Promise.all([limits.charged(), ledger.written()]);
      },
    },
  };
}
