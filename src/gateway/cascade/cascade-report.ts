/** The view of virtual models for administrators and metrics. */
import type { ErrorClass } from "../routes/error-class.js";
import type { Decision } from "./cascade-policy.js";
import type { GuardReport } from "./guard.js";

/** Counts for metrics. */
export interface RouteCounts {
  routed(route: string, model: string): void;
  fellBack(route: string, from: string, errorClass: ErrorClass): void;
  decided(cascade: string, decision: Decision): void;
}

/** A cascade as administrators see it. */
export interface CascadeReport extends GuardReport {
  readonly name: string;
  readonly small: string;
  readonly large: string;
  readonly maxLoss: number;
  /** Share of requests that go to both models. */
  readonly auditShare: number;
  /** Since the gateway started. */
  readonly decisions: readonly { readonly decision: string; readonly count: number }[];
}
