/**
 * For each width that divides the machine's GPUs: few wide or many narrow instances with the same weights and drafts,
 * under the requested load and under a flood.
 */
import { PUBLISHED_SPLITS } from "./data/reference.js";
import { evaluate } from "./evaluate.js";
import type { Configuration, PlanRequest, Split } from "./request.js";
import { widthsOf } from "./rules.js";

/** More concurrent requests than any machine of the table can serve. */
export const FLOOD = 3000;

export function splitsOf(request: PlanRequest, best: Configuration, maxModelLen: number): readonly Split[] {
  const { machine, model } = request;
  if (machine.kind !== "gpu" || machine.count === 1) return [];
  const published = PUBLISHED_SPLITS[`${model.name} on ${machine.device.id}x${machine.count}`];
  const found = widthsOf(model, machine, best.engine, best.quantization).flatMap((tensorParallel): Split[] => {
    const instances = Math.floor(machine.count / tensorParallel);
    const candidate = {
      ...best,
      tensorParallel,
      instances,
      dataParallel: undefined,
      hasWholeExperts: undefined,
      pipelineParallel: undefined,
    };
    const own = evaluate(request, candidate, maxModelLen);
    const flood = { ...request, load: { concurrency: FLOOD }, slo: {} };
    const flooded = evaluate(flood, { ...candidate, drafting: undefined }, maxModelLen);
    if (own === undefined || flooded === undefined) return [];
    const { outputTokensPerS } = own.prediction;
    const floodedTokensPerS = flooded.prediction.outputTokensPerS;
    return [{ instances, tensorParallel, outputTokensPerS, floodedTokensPerS, published: published?.[tensorParallel] }];
  });
  return found.length > 1 ? found.toReversed() : [];
}
