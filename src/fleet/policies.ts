/** The gateway's policies as the configuration asks for them, from the first to see a request to the last. */
import type Database from "libsql";
import type { Logger } from "pino";
import type { Policy } from "../gateway/pipeline.js";
import type { FleetConfig } from "./config/schema.js";
import type { Ledger } from "./ledger.js";

export interface PolicyContext {
  /** The configuration now: a reload replaces it. */
  readonly config: () => FleetConfig;
  /** The gateway's database, opened at the first use. */
  readonly database: () => Database.Database;
  readonly logger: Logger;
  readonly ledger: Ledger;
}

/** A policy that the configuration does not ask for is left out, so that requests pay for nothing. */
export function createPolicies({ ledger }: PolicyContext): readonly Policy[] {
  return [...ledger.policies()];
}
