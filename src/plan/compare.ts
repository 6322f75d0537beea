/** Two configurations beside each other: a sentence, and the numbers in it. Every reason is made of these. */
import type { Evaluation } from "./evaluate.js";
import { AIM_KEY, type Figure, firstDifference, isUnbounded, keysOf, OVER_TARGETS, rank, SPEED } from "./ranking.js";
import type { ConfigurationKey, PlanRequest, Versus } from "./request.js";
import { isSameSharing, sharingOf, sharingText } from "./sharing.js";

/** More digits would claim more precision than predictions have. */
const MOST_DIGITS = 4;

interface Compared {
  readonly text: string;
  readonly versus: Versus;
}

/** @example shapeText(evaluation) // "4 × TP2" */
function shapeText({ instance, instances }: Evaluation): string {
  if (instance.machine.kind === "cpu") return instances === 1 ? "1 instance" : `${instances} instances`;
  return `${instances} × ${sharingText(instance)}`;
}

/** Names `other` by its differences from `mine`. */
function nameBeside(other: Evaluation, mine: Evaluation): string {
  const isSameShape = isSameSharing(other, mine) && other.instances === mine.instances;
  const parts = [
    other.quantization.id === mine.quantization.id ? "" : other.quantization.label,
    isSameShape ? "" : shapeText(other),
    other.kv.id === mine.kv.id ? "" : `keys and values in ${other.kv.label}`,
    other.drafting?.depth === mine.drafting?.depth ? "" : other.drafting === undefined ? "no drafts" : "drafts",
  ];
  return parts.filter((part) => part !== "").join(", ");
}

function plainNumber(value: number, decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2): string {
  return Number.isFinite(value) ? value.toLocaleString("en-US", { maximumFractionDigits: decimals }) : "∞";
}

/** Both numbers with enough decimals to tell them apart, but at most MOST_DIGITS digits. */
function pairText(a: number, b: number, { number: textOf = plainNumber }: Figure): readonly [string, string] {
  const most = MOST_DIGITS - 1 - Math.floor(Math.log10(Math.max(a, b)));
  for (const decimals of [undefined, 2, 3, 4, 5, 6]) {
    if (decimals !== undefined && !(decimals <= most)) break;
    const pair = [textOf(a, decimals), textOf(b, decimals)] as const;
    if (pair[0] !== pair[1]) return pair;
  }
  return [textOf(a, undefined), textOf(b, undefined)];
}

function keyOf(evaluation: Evaluation): ConfigurationKey {
  const { quantization, kv, instances, drafting } = evaluation;
  const types = { weights: quantization.id, kv: kv.id };
  return { ...types, ...sharingOf(evaluation), instances, drafts: drafting?.depth ?? 0 };
}

function versusOf(request: PlanRequest, { of, unit }: Figure, mine: Evaluation, other: Evaluation): Versus {
  const [own, its] = [of(request, mine), of(request, other)];
  return { figure: unit, mine: own, of: keyOf(mine), other: its, with: keyOf(other) };
}

/** @example "8,464 tokens/s against 7,753 with 4 × TP2" */
export function inFigure(request: PlanRequest, figure: Figure, mine: Evaluation, other: Evaluation): Compared {
  const versus = versusOf(request, figure, mine, other);
  const [first, second] = pairText(versus.mine, versus.other, figure);
  return { text: `${figure.text(first)} against ${second} with ${nameBeside(other, mine)}`, versus };
}

function byTargets(request: PlanRequest, mine: Evaluation, other: Evaluation): Compared {
  const versus = versusOf(request, OVER_TARGETS, mine, other);
  const name = nameBeside(other, mine);
  if (versus.mine === 0) return { text: `${name} misses what is asked for (${other.misses.join("; ")})`, versus };
  if (versus.other === 0) return { text: `${name} keeps the targets, which this misses`, versus };
  if (isUnbounded(versus.mine) && isUnbounded(versus.other)) {
    const { text, versus: served } = inFigure(request, SPEED, mine, other);
    return { text: `more requests come than either serves: ${text}`, versus: served };
  }
  if (isUnbounded(versus.other)) return { text: `${name} serves fewer requests than come`, versus };
  if (isUnbounded(versus.mine)) return { text: `${name} serves the requests that come, which this does not`, versus };
  return inFigure(request, OVER_TARGETS, mine, other);
}

/** The figure that decides between the two, in the order of `rank`. */
export function against(request: PlanRequest, mine: Evaluation, other: Evaluation): Compared {
  const index = firstDifference(rank(request, mine), rank(request, other));
  if (index === 0) return byTargets(request, mine, other);
  const aim = keysOf(request)[AIM_KEY]!;
  if (index === undefined) {
    return { text: `no figure differs with ${nameBeside(other, mine)}`, versus: versusOf(request, aim, mine, other) };
  }
  const compared = inFigure(request, keysOf(request)[index]!, mine, other);
  if (index === AIM_KEY) return compared;
  return { ...compared, text: `equal in ${aim.unit} within a thousandth, and ${compared.text}` };
}
