/** The operations of a store as data, so that those of one turn of the event loop travel together. */
import type { BudgetUnit } from "../scope.js";
import type { Claims } from "./claims.js";
import type { Levels, Recovered, Reservation, ReserveResult, ResizeResult } from "./store.js";

export type Operation =
  | { readonly op: "reserve"; readonly reservation: Reservation }
  | {
      readonly op: "resize";
      readonly id: string;
      readonly unit: BudgetUnit;
      readonly want: number;
      readonly least: number;
    }
  | { readonly op: "settle"; readonly id: string; readonly money: number; readonly tokens: number }
  | { readonly op: "charge"; readonly claims: Claims; readonly money: number; readonly tokens: number }
  | { readonly op: "read"; readonly claims: Claims }
  | { readonly op: "recover" }
  | { readonly op: "count" };

export interface Results {
  readonly reserve: ReserveResult;
  readonly resize: ResizeResult;
  readonly settle: boolean;
  readonly charge: null;
  readonly read: Levels;
  readonly recover: readonly Recovered[];
  readonly count: number;
}

export type Result = Results[Operation["op"]];
