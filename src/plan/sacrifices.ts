/**
 * Leaves out configurations that give up precision, or rely on the text for their drafts, without enough gain, and
 * states the deciding figures.
 */
import { against, inFigure } from "./compare.js";
import { QUALITY, SPECULATION } from "./data/constants.js";
import type { Evaluation } from "./evaluate.js";
import { AIMS, type Figure, isUnbounded, OVER_TARGETS, ranked, SPEED } from "./ranking.js";
import type { PlanRequest, Refusal } from "./request.js";
import { devicesOf } from "./sharing.js";

/** Most concurrent requests of an instance at which memory, not arithmetic, limits 16-bit products. */
const FEW_SEQUENCES = 4;

interface Search {
  readonly kept: readonly Evaluation[];
  readonly refusals: readonly Refusal[];
}

interface Sacrifice {
  readonly what: (evaluation: Evaluation) => string;
  readonly isMade: (evaluation: Evaluation) => boolean;
  /** Least factor by which the sacrifice must improve the deciding figure. */
  readonly leastGain: number;
  readonly because: string;
}

const SACRIFICES: readonly Sacrifice[] = [
  {
    what: ({ kv }) => `keys and values in ${kv.label}`,
    isMade: ({ kv }) => kv.id !== "16",
    leastGain: QUALITY.smallestGain.value,
    because: "a loss of precision must win",
  },
  {
    what: () => "EAGLE-3 drafts",
    isMade: ({ drafting }) => drafting !== undefined,
    leastGain: SPECULATION.smallestGain.value,
    because: "drafts must win, as their acceptance depends on the text",
  },
];

/** The figure that decides between `safe` and a sacrifice. */
function deciding(request: PlanRequest, safe: Evaluation): Figure {
  const over = OVER_TARGETS.of(request, safe);
  return over === 0 ? AIMS[request.objective] : isUnbounded(over) ? SPEED : OVER_TARGETS;
}

/** The factor by which `bold` is better than `safe` in the deciding figure. */
function gainOf(request: PlanRequest, bold: Evaluation, safe: Evaluation): number {
  const [boldOver, safeOver] = [bold, safe].map((each) => OVER_TARGETS.of(request, each)) as [number, number];
  if (boldOver === 0 && safeOver > 0) return Number.POSITIVE_INFINITY;
  if (boldOver > 0 && safeOver === 0) return 0;
  if (isUnbounded(safeOver) && !isUnbounded(boldOver)) return Number.POSITIVE_INFINITY;
  const { of, isMoreBetter } = deciding(request, safe);
  const ratio = of(request, bold) / of(request, safe);
  return isMoreBetter ? ratio : 1 / ratio;
}

function withoutIdle(request: PlanRequest, evaluations: readonly Evaluation[], sacrifice: Sacrifice): Search {
  const { isMade, leastGain, what, because } = sacrifice;
  const bold = ranked(request, evaluations.filter(isMade))[0];
  const others = evaluations.filter((each) => !isMade(each));
  const safe = ranked(request, others)[0];
  if (bold === undefined || safe === undefined) return { kept: evaluations, refusals: [] };
  const gain = gainOf(request, bold, safe);
  if (gain >= leastGain) return { kept: evaluations, refusals: [] };
  if (gain === 0) {
    const { text, versus } = against(request, bold, safe);
    return { kept: others, refusals: [{ what: what(bold), because: `${bold.misses.join("; ")}: ${text}`, versus }] };
  }
  const { text, versus } = inFigure(request, deciding(request, safe), bold, safe);
  const least = `less than the ${Math.round(100 * (leastGain - 1))} % that ${because}`;
  return { kept: others, refusals: [{ what: what(bold), because: `${text}, ${least}`, versus }] };
}

/**
 * Leaves INT4 weights out, unless memory is short (other weights leave too few seats, miss targets or need more GPUs),
 * or the request wants low latency for so few sequences that only reading weights counts.
 */
function withoutIdleInt4(request: PlanRequest, evaluations: readonly Evaluation[]): Search {
  const isInt4 = ({ quantization }: Evaluation): boolean => quantization.id === "awq";
  const others = evaluations.filter((each) => !isInt4(each));
  const int4 = ranked(request, evaluations.filter(isInt4));
  const all: Search = { kept: evaluations, refusals: [] };
  const wide = others.filter(({ kv }) => kv.id === "16");
  const [best, safe] = [int4[0], ranked(request, wide.length > 0 ? wide : others)[0]];
  if (best === undefined || safe === undefined || request.quantization === "awq") return all;
  const isFew = request.objective === "latency" && int4.some(({ wantedSeats }) => wantedSeats <= FEW_SEQUENCES);
  const narrowest = (of: readonly Evaluation[]): number => Math.min(...of.map(devicesOf));
  const isNarrower = narrowest(int4) < narrowest(others);
  const isNeeded = best.misses.length === 0 && safe.misses.length > 0;
  if (isFew || isNarrower || isNeeded || safe.seats < safe.wantedSeats) return all;
  const { quantization, seats, wantedSeats } = safe;
  const because = `memory does not bind: in ${quantization.label} ${seats} sequences fit in an instance where ${wantedSeats} are there at once, and more of the quality stays`;
  return { kept: others, refusals: [{ what: best.quantization.label, because }] };
}

/** @param evaluations all configurations that fit */
export function withoutIdleSacrifices(request: PlanRequest, evaluations: readonly Evaluation[]): Search {
  let { kept, refusals } = withoutIdleInt4(request, evaluations);
  for (const sacrifice of SACRIFICES) {
    const next = withoutIdle(request, kept, sacrifice);
    kept = next.kept;
    refusals = [...refusals, ...next.refusals];
  }
  return { kept, refusals };
}
