/** The published EAGLE-3 heads that an engine drafts a model's answers with. */
import { DRAFTING_ENGINES, type PlannedEngine } from "./data/engines.js";
import type { DraftHeads } from "./data/model-row.js";
import type { PlannedModel } from "./planned-model.js";

/** @returns undefined where no heads are known, or the engine cannot read them */
export function headsFor({ eagle3 }: PlannedModel, engine: PlannedEngine): DraftHeads | undefined {
  if (eagle3 === undefined || !DRAFTING_ENGINES.includes(engine)) return undefined;
  return eagle3.onlyIn === undefined || eagle3.onlyIn === engine ? eagle3 : undefined;
}
