/** The gateway's policies as the configuration asks for them, from the first to see a request to the last. */
import type Database from "libsql";
import type { Logger } from "pino";
import type { AnswerSink } from "../gateway/answer.js";
import type { CacheResult } from "../gateway/cache/exact-cache.js";
import type { Ending, Policy } from "../gateway/pipeline.js";
import type { TokenCounts } from "../gateway/record.js";
import { ModelAccess } from "../gateway/tenants/model-access.js";
import { hasTenants } from "./authorize.js";
import { createLimits } from "./budget-policy.js";
import { createExactCache, createIdempotency } from "./cache-policies.js";
import type { FleetConfig } from "./config/schema.js";
import { createGuardrails, createLangfuse } from "./hook-policies.js";
import type { Ledger } from "./ledger.js";
import type { OwnRequest } from "./proxy/own-request.js";
import { createSemanticCache } from "./semantic-policy.js";
import type { EngineName } from "./upstream/engine.js";
import type { VirtualModels } from "./virtual-models.js";

/** What policies know of the models. */
export interface ModelDirectory {
  /** The model that a client's name stands for. */
  resolve(name: string): string | undefined;
  engine(model: string): EngineName | undefined;
  /** Identity of what answers under a model's own name; undefined while that is unknown. */
  version(model: string): string | undefined;
}

/** Counts what policies did. */
export interface PolicyMetrics {
  cacheAnswered(model: string, result: CacheResult, saved: TokenCounts | undefined): void;
}

export interface PolicyContext {
  /** The configuration now: a reload replaces it. */
  readonly config: () => FleetConfig;
  /** The gateway's database, opened at the first use. */
  readonly database: () => Database.Database;
  readonly models: ModelDirectory;
  readonly metrics: PolicyMetrics;
  /** Sends a request of the gateway's own through all policies. Rejects like a Handler. */
  readonly submit: (request: OwnRequest, sink: AnswerSink) => Promise<Ending>;
  readonly logger: Logger;
  readonly ledger: Ledger;
  readonly virtual: VirtualModels;
}

/** A policy that the configuration does not ask for is left out, so that requests pay for nothing. */
export async function createPolicies(context: PolicyContext): Promise<readonly Policy[]> {
  const { config, models, ledger, virtual } = context;
  const langfuse = createLangfuse(context);
  const wanted = await Promise.all([
    hasTenants(config()) ? new ModelAccess((name) => models.resolve(name) ?? name) : undefined,
    langfuse?.outer,
    createGuardrails(context),
    langfuse?.inner,
    createLimits(context),
    createIdempotency(context),
    createExactCache(context),
    createSemanticCache(context),
  ]);
  return [...ledger.policies(), ...wanted.filter((policy) => policy !== undefined), ...virtual.policies];
}
