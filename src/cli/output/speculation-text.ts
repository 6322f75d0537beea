/**
 * A tuning of drafts as tables: the classes, the best drafts of each class and temperature, and the ranking for the
 * complete mix.
 */
import { geometricMean } from "../../bench/measure/intervals.js";
import type { Cell, CellMeasured, Ranked, SpeculationTuning } from "../../lab/speculation/search.js";
import type { ClassCount } from "../../lab/speculation/task-classes.js";
import { ratioText } from "../../lab/tune/report.js";
import { formatTable } from "./format.js";

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

export function classTable(counts: readonly ClassCount[]): string {
  const rows = counts.map(({ name, numRequests, rules, share }) => [
    name,
    String(numRequests),
    percent(share),
    rules.map(({ because, numRequests: count }) => `${because}: ${count}`).join("; "),
  ]);
  return formatTable([["class", "requests", "time", "because"], ...rows]);
}

/** Tokens gained from drafts; a dash if nothing was drafted. */
const acceptedText = ({ numDraftTokens, numAcceptedTokens }: CellMeasured): string =>
  numDraftTokens === 0 ? "–" : percent(numAcceptedTokens / numDraftTokens);

const perStep = ({ numTokens, numSteps }: CellMeasured): string => (numTokens / Math.max(1, numSteps)).toFixed(2);

/** @param top number of candidates of each class and temperature */
export function cellTable(cells: readonly Cell[], { ranking }: SpeculationTuning, top: number): string {
  const rows = cells.flatMap(({ className, temperature }, index) =>
    ranking
      .map(({ candidate, cells: measured }) => ({ candidate, cell: measured[index]! }))
      .map((each) => ({ ...each, ratio: geometricMean(each.cell.ratios)! }))
      .sort((a, b) => b.ratio.value - a.ratio.value)
      .slice(0, top)
      .map(({ candidate, cell, ratio }, place) => [
        className,
        temperature,
        String(place + 1),
        candidate.name,
        acceptedText(cell),
        perStep(cell),
        ratioText(ratio),
      ]),
  );
  const header = ["class", "temperature", "rank", "drafts", "accepted", "tokens a step", "decoding (95 % interval)"];
  return formatTable([header, ...rows]);
}

/** Below this ratio, the text calls a class slower. */
const SLOWER = 0.97;

function slowerIn({ cells: measured }: Ranked, cells: readonly Cell[]): string {
  return measured
    .flatMap(({ ratios }, index) => {
      const { value } = geometricMean(ratios)!;
      const { className, temperature } = cells[index]!;
      return value < SLOWER ? [`${className} at ${temperature} (${value.toFixed(2)})`] : [];
    })
    .join(", ");
}

export function rankingTable(cells: readonly Cell[], { ranking, failed }: SpeculationTuning): string {
  const rows = ranking.map((ranked, index) => [
    String(index + 1),
    ranked.candidate.name,
    ratioText(ranked.mix),
    String(ranked.mix.numRuns),
    slowerIn(ranked, cells),
  ]);
  const table = formatTable([["rank", "drafts", "decoding, all classes", "rounds", "slower in"], ...rows]);
  const notes = failed.map(({ candidate, problem }) => `not measured: ${candidate.name}: ${problem}`);
  return [table, ...notes].join("\n");
}

/** @example "ngram, 4 tokens: 1.12 × (1.02 to 1.23) plain decoding" */
export const rankedText = ({ candidate, mix }: Ranked): string => `${candidate.name}: ${ratioText(mix)} plain decoding`;

/** @example "drafts: mill-heads.gguf, 4 tokens: decoding 1.41 × (1.33 to 1.49), measured again; the gain is sure" */
export function choiceText({ chosen, confirmed, end }: SpeculationTuning): string {
  const again = confirmed === undefined ? "" : `: decoding ${ratioText(confirmed)}, measured again`;
  return `drafts: ${chosen?.name ?? "none"}${again}; ${end}`;
}
