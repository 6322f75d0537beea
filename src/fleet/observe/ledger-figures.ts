/** Counts the ledger's rows as requests end, for operators. */
import type { RequestRow } from "../../gateway/ledger/ledger-rows.js";
import { ModelFigures } from "./model-figures.js";
import { TenantFigures } from "./tenant-figures.js";

export class LedgerFigures {
  readonly tenants = new TenantFigures();
  readonly #models: ModelFigures;

  /** @param modelOf the model that a client's name stands for; undefined: none */
  constructor(modelOf: (name: string) => string | undefined) {
    this.#models = new ModelFigures(modelOf);
  }

  /** A request has ended. */
  count(row: RequestRow): void {
    this.tenants.count(row);
    this.#models.count(row);
  }

  /** In Prometheus' text format. */
  text(): string {
    return `${this.tenants.text()}\n${this.#models.text()}`;
  }
}
