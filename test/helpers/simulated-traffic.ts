/** The load of a simulated server: what its clients ask, and the token ids of their prompts. */
import type { Load } from "../../src/bench/workload/load.js";
import type { Length, Workload } from "../../src/bench/workload/workload.js";
import { uniform } from "../../src/core/random.js";

export interface Traffic {
  readonly workload: Workload;
  readonly load: Load;
  readonly numRequests: number;
}

export const closed = (concurrency: number): Load => ({ kind: "closed", concurrency, rampMs: 0 });

export const randomTraffic = (
  promptTokens: Length,
  outputTokens: Length,
  load: Load,
  numRequests: number,
  sharedTokens = 0,
): Traffic => ({ workload: { kind: "random", promptTokens, outputTokens, sharedTokens }, load, numRequests });

export interface Prompt {
  readonly ids: readonly number[];
  readonly numOutputTokens: number;
}

/** Distinct ids from 1 on, as many as are asked for in all. */
export function promptsOf({ workload, numRequests }: Traffic): readonly Prompt[] {
  const random = uniform(3);
  let numIds = 1;
  const fresh = (length: number): number[] => Array.from({ length }, () => numIds++);
  const lengthOf = (length: Length): number =>
    typeof length === "number" ? length : Math.round(length.min * (length.max / length.min) ** random());
  const numbered = Array.from({ length: numRequests }, (_, index) => index);
  switch (workload.kind) {
    case "random": {
      const shared = fresh(workload.sharedTokens);
      return numbered.map(() => ({
        ids: [...shared, ...fresh(Math.max(1, lengthOf(workload.promptTokens) - shared.length))],
        numOutputTokens: lengthOf(workload.outputTokens),
      }));
    }
    case "documents": {
      const documents = Array.from({ length: workload.numDocuments }, () => fresh(workload.documentTokens));
      // In turns: the order that is worst for a cache in which they do not all fit.
      return numbered.map((index) => ({
        ids: [...documents[index % documents.length]!, ...fresh(8)],
        numOutputTokens: workload.outputTokens,
      }));
    }
    case "entries": {
      const ids = new Map<string, number>();
      return numbered.map((index) => {
        const { prompt, outputTokens } = workload.entries[index % workload.entries.length]!;
        const words = String(prompt).split(" ");
        for (const word of words) if (!ids.has(word)) ids.set(word, numIds++);
        return { ids: words.map((word) => ids.get(word)!), numOutputTokens: outputTokens };
      });
    }
    default:
      throw new Error(`no simulated prompts of ${workload.kind}`);
  }
}
