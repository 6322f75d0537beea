/** The gateway's policies for a configuration, in the order in which they see a request. */
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
 * Lines for a provider's batch endpoint pass some policies twice. Before the hand-over, policies may refuse or change
 * the request; afterwards they inspect and charge the answer. Lines skip caches, and name the model itself, so that no
 * route chooses.
 */
export interface HandedPolicies {
  readonly limits: HandedLimits;
  readonly preparing: readonly Policy[];
  readonly booking: readonly Policy[];
  /** Resolves when the charges and ledger rows so far survive kill -9. */
  readonly booked: () => Promise<void>;
}

interface Policies {
  readonly all: readonly Policy[];
  readonly handed: HandedPolicies;
}

/**
 * Policies that the configuration does not ask for are left out, so that requests do not pay for them. The caches stand
 * behind the routes, and know the chosen model. Policies that change a body for the upstream stand behind the caches,
 * so
 * that caches and retries see the client's request. A cascade asks two models at once within one reservation of money,
 * so it stands behind the budgets.
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
    // Before the caches, which keep the canary's answers apart, and again for the models of a cascade.
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
      // The provider's answer is charged even if guardrails reject it.
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
