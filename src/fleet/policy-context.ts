/** What the makers of policies get: the configuration, the gateway's stores, and what is known of the models. */
import type Database from "libsql";
import type { Logger } from "pino";
import type { AnswerSink } from "../gateway/answer.js";
import type { Ending } from "../gateway/pipeline.js";
import type { FleetConfig } from "./config/schema.js";
import type { Ledger } from "./ledger.js";
import type { CacheCounts } from "./observe/metrics.js";
import type { OwnRequest } from "./proxy/own-request.js";
import type { EngineName } from "./upstream/engine.js";
import type { VirtualModels } from "./virtual-models.js";

/** What policies know of the models. */
interface ModelDirectory {
  /** The model that a client's name stands for. */
  resolve(name: string): string | undefined;
  engine(model: string): EngineName | undefined;
  /** Identity of what answers under a model's own name; undefined while that is unknown. */
  version(model: string): string | undefined;
}

export interface PolicyContext {
  /** The configuration now: a reload replaces it. */
  readonly config: () => FleetConfig;
  /** The gateway's database, opened at the first use. */
  readonly database: () => Database.Database;
  /** The database of what can be made again, opened at the first use. */
  readonly cacheDatabase: () => Database.Database;
  readonly models: ModelDirectory;
  readonly metrics: CacheCounts;
  /** Sends a request of the gateway's own through all policies. Rejects like a Handler. */
  readonly submit: (request: OwnRequest, sink: AnswerSink) => Promise<Ending>;
  readonly logger: Logger;
  readonly ledger: Ledger;
  readonly virtual: VirtualModels;
}
