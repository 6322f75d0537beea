/** The parts of the fleet that the gateway's parts need. */
import type Database from "libsql";
import type { Logger } from "pino";
import type { AnswerSink } from "../../gateway/answer.js";
import type { PromptFacts } from "../../gateway/budget/estimate.js";
import type { CacheResult } from "../../gateway/cache/exact-cache.js";
import type { LimitSource } from "../../gateway/lengths/length-policy.js";
import type { Ending, Policy } from "../../gateway/pipeline.js";
import type { CacheKind } from "../../gateway/store/database.js";
import type { TokenCounts } from "../../gateway/usage/record.js";
import type { FleetConfig } from "../config/schema.js";
import type { OwnRequest } from "../proxy/own-request.js";
import type { EngineName } from "../upstream/engine.js";
import type { Ledger } from "./ledger.js";
import type { VirtualModels } from "./virtual-models.js";

/** The policies' view of the models. */
interface ModelDirectory {
  /** Resolves a client's name to a model. */
  resolve(name: string): string | undefined;
  engine(model: string): EngineName | undefined;
  /** @param models models that may get the prompt */
  promptFacts(models: readonly string[]): PromptFacts;
  /** Identity of the engine and weights behind a model's own name; undefined while unknown. */
  version(model: string): string | undefined;
}

/** Counts the policies' actions. */
interface PolicyMetrics {
  cacheAnswered(model: string, result: CacheResult, saved: TokenCounts | undefined): void;
  answerEnded(name: string, limit: LimitSource, isTruncated: boolean): void;
  requestsRecorded(result: "written" | "lost", count: number): void;
}

export interface PolicyContext {
  /** The current configuration; a reload replaces it. */
  readonly config: () => FleetConfig;
  readonly dataFolder: string;
  /** The gateway's database; the first use opens it. */
  readonly database: () => Database.Database;
  /** The databases of data that can be created again; the first use opens them. */
  readonly cacheDatabase: (kind: CacheKind) => Database.Database;
  readonly models: ModelDirectory;
  readonly metrics: PolicyMetrics;
  /** Sends one of the gateway's own requests through all policies. Rejects like a Handler. */
  readonly submit: (request: OwnRequest, sink: AnswerSink) => Promise<Ending>;
  readonly logger: Logger;
  readonly ledger: Ledger;
  /** Policies that only observe: the ledger, and the sampling of answers. They see the same as clients. */
  readonly observing: readonly Policy[];
  readonly virtual: VirtualModels;
  /** Shares a model's requests with its canary. */
  readonly canary: Policy;
}
