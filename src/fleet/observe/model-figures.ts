/**
 * Tokens and money by model, counted from the ledger's rows as requests end. They belong to the tenants' figures and
 * not
 * to the public metrics, since only operators may see a gateway's costs.
 */
import type { RequestRow } from "../../gateway/ledger/ledger-rows.js";
import { familyText, labelsText } from "./metric-text.js";

/** Models change while a gateway runs; those beyond this number count as `OTHER`. */
export const MOST_MODELS = 256;
const OTHER = "other";
/** Counts all names that clients invent, so that they cannot fill the metrics. */
const UNKNOWN = "unknown";

const NANO = 1e9;

interface Sums {
  promptTokens: number;
  outputTokens: number;
  costNano: number;
  savedNano: number;
}

type Counter = readonly [name: string, help: string, totalOf: (sums: Sums) => number];

const COUNTERS: readonly Counter[] = [
  ["prompt_tokens_total", "Prompt tokens of the model's attempts, cached ones included", (own) => own.promptTokens],
  ["generation_tokens_total", "Tokens generated", (own) => own.outputTokens],
  ["cost_dollars_total", "Dollars that the model's attempts cost", (own) => own.costNano / NANO],
  ["saved_dollars_total", "Dollars that caches and cascades saved", (own) => own.savedNano / NANO],
];

export class ModelFigures {
  readonly #models = new Map<string, Sums>();

  /** @param modelOf resolves a name to a model; undefined: unknown name */
  constructor(private readonly modelOf: (name: string) => string | undefined) {}

  /**
   * Counts a request at its end: each attempt for its own model, and the saved amount for the model in the ledger's
   * spend.
   */
  count({ attempts, asked, served, saved, outcome }: RequestRow): void {
    for (const { model, counts, cost } of attempts) {
      // A lost request's row has only the client's name for the model.
      const sums = outcome === "lost" ? this.#ofClients(model) : this.#sumsOf(model);
      sums.costNano += Number(cost ?? 0n);
      if (counts === undefined) continue;
      sums.promptTokens += counts.fresh + counts.cacheRead + counts.cacheWrite;
      sums.outputTokens += counts.output;
    }
    if (saved === 0n) return;
    const saver = attempts.at(-1)?.model;
    const sums = saver === undefined ? this.#ofClients(served === "" ? asked : served) : this.#sumsOf(saver);
    sums.savedNano += Number(saved);
  }

  /** In Prometheus' text format. */
  text(): string {
    const all = [...this.#models].map(([model, sums]) => [labelsText({ model }), sums] as const);
    return COUNTERS.map(([name, help, totalOf]) => {
      const full = `millrace_model:${name}`;
      const lines = all.map(([labels, sums]) => `${full}{${labels}} ${totalOf(sums)}`);
      return familyText(full, help, "counter", lines);
    }).join("\n");
  }

  #ofClients(name: string): Sums {
    return this.#sumsOf(this.modelOf(name) ?? UNKNOWN);
  }

  #sumsOf(name: string): Sums {
    const model = this.#models.has(name) || this.#models.size < MOST_MODELS - 1 ? name : OTHER;
    let sums = this.#models.get(model);
    if (sums === undefined) {
      sums = { promptTokens: 0, outputTokens: 0, costNano: 0, savedNano: 0 };
      this.#models.set(model, sums);
    }
    return sums;
  }
}
