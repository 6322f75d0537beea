/** Counts the ledger's rows for operators, as requests end. */
import type { RequestRow } from "../../gateway/ledger/ledger-rows.js";
import { ModelFigures } from "./model-figures.js";
import { TenantFigures } from "./tenant-figures.js";

export class LedgerFigures {
  readonly tenants = new TenantFigures();
  readonly #models: ModelFigures;

  /** @param modelOf resolves a client's name to a model; undefined: an unknown name */
  constructor(modelOf: (name: string) => string | undefined) {
    this.#models = new ModelFigures(modelOf);
  }

  /** Counts a request at its end. */
  count(row: RequestRow): void {
    this.tenants.count(row);
    this.#models.count(row);
  }

  /** In Prometheus' text format. */
  text(): string {
    return `${this.tenants.text()}\n${this.#models.text()}`;
  }
}
