/**
 * Compares two models by their answers to the same items: losses and wins, by task and overall, and whether the loss is
 * within a margin.
 */
import { promptId } from "./ask.js";
import {
  dropInterval,
  dropOf,
  type Flips,
  flipsOf,
  itemsNeeded,
  mcnemarMidP,
  type Pair,
  powerOf,
  type Verdict,
  verdictOf,
} from "./paired.js";
import type { ItemResult, TaskResult } from "./run-task.js";

/** Shares of 1: a drop of 2 points is 0.02. */
export interface TaskComparison extends Flips {
  readonly task: string;
  readonly before: number;
  readonly after: number;
  readonly drop: number;
  /** Two-sided 95 % interval (Tango's score). */
  readonly interval: readonly [low: number, high: number];
  /** McNemar's mid-p, two-sided. */
  readonly p: number;
  readonly meanScoreBefore: number;
  readonly meanScoreAfter: number;
}

export interface Comparison {
  readonly tasks: readonly TaskComparison[];
  /** Over the items of all tasks together. */
  readonly overall: TaskComparison;
  /** The largest permitted drop. */
  readonly maxDrop: number;
  readonly verdict: Verdict;
  /** Whether each round was tested, instead of a single test. */
  readonly isSequential: boolean;
  /**
   * For an undecided verdict: further items for 80 % power if the models are equally good or, if that number should
   * have sufficed, if the observed drop is the true one; undefined if the observed drop reaches the margin.
   */
  readonly numMoreItems?: number;
  /** Items with an answer from only one of the two. */
  readonly numUnpaired: number;
}

interface ItemPair {
  readonly task: string;
  readonly before: ItemResult;
  readonly after: ItemResult;
}

/** Pairs items with equal prompts and expected answers. */
export function pairItems(
  before: readonly TaskResult[],
  after: readonly TaskResult[],
): { readonly pairs: readonly ItemPair[]; readonly numUnpaired: number } {
  const earlier = new Map(before.flatMap(({ task, items }) => items.map((item) => [itemId(task, item), item])));
  const pairs: ItemPair[] = [];
  let numUnpaired = earlier.size;
  for (const { task, items } of after) {
    for (const item of items) {
      const partner = earlier.get(itemId(task, item));
      if (partner === undefined) numUnpaired++;
      else {
        pairs.push({ task, before: partner, after: item });
        numUnpaired--;
      }
    }
  }
  return { pairs, numUnpaired };
}

const itemId = (task: string, { prompt, expected }: Pick<ItemResult, "prompt" | "expected">): string =>
  promptId([{ role: "task", content: task }, ...prompt, { role: "assistant", content: expected }]);

export const pairOf = ({ before, after }: ItemPair): Pair => ({ before: before.exact, after: after.exact });

/** @param sequential the verdict of a gate that tested after every item; absent: of a single test now */
export function compare(
  before: readonly TaskResult[],
  after: readonly TaskResult[],
  maxDrop: number,
  sequential?: Verdict,
): Comparison {
  const { pairs, numUnpaired } = pairItems(before, after);
  const overall = comparisonOf("all", pairs);
  const verdict = sequential ?? verdictOf(overall, maxDrop);
  const needed = verdict === "undecided" ? neededBy(overall, maxDrop) : undefined;
  return {
    tasks: after.map(({ task }) =>
      comparisonOf(
        task,
        pairs.filter((pair) => pair.task === task),
      ),
    ),
    overall,
    maxDrop,
    verdict,
    isSequential: sequential !== undefined,
    ...(needed === undefined || needed <= overall.numItems ? {} : { numMoreItems: needed - overall.numItems }),
    numUnpaired,
  };
}

/** Few items get a cautious estimate: as if one of 20 more had flipped, the smaller of the usual shares. */
const flipShareOf = ({ numItems, numLost, numWon }: Flips): number => (numLost + numWon + 1) / (numItems + 20);

/** Items needed for equally good models; if that many have not decided, items for the observed drop. */
function neededBy(flips: TaskComparison, maxDrop: number): number | undefined {
  const share = flipShareOf(flips);
  const ifEqual = itemsNeeded(share, maxDrop)!;
  return ifEqual > flips.numItems ? ifEqual : itemsNeeded(share, maxDrop, flips.drop);
}

function comparisonOf(task: string, pairs: readonly ItemPair[]): TaskComparison {
  const flips = flipsOf(pairs.map(pairOf));
  const meanOf = (read: (pair: ItemPair) => number): number =>
    pairs.reduce((sum, pair) => sum + read(pair), 0) / Math.max(1, pairs.length);
  return {
    task,
    ...flips,
    before: meanOf(({ before }) => Number(before.exact)),
    after: meanOf(({ after }) => Number(after.exact)),
    drop: dropOf(flips),
    interval: dropInterval(flips),
    p: mcnemarMidP(flips),
    meanScoreBefore: meanOf(({ before }) => before.score),
    meanScoreAfter: meanOf(({ after }) => after.score),
  };
}

/** Usual shares of answers that flip between a model and a compressed one: 5 % and 10 %. */
const USUAL_FLIPS = [0.05, 0.1] as const;

/** The smallest drop that this number of items can show, announced before the run. */
export function powerText(numItems: number, maxDrop: number): string {
  const [few, many] = USUAL_FLIPS.map((share) => `${Math.round(100 * powerOf(numItems, share, maxDrop, 0))} %`);
  const [need, needMany] = USUAL_FLIPS.map((share) => itemsNeeded(share, maxDrop));
  return (
    `${numItems} items show that an equally good model drops less than ${points(maxDrop)} points with a probability of ` +
    `${few} if 5 % of the answers flip, ${many} if 10 % do (80 % need ${need} and ${needMany} items)`
  );
}

export const points = (share: number): string => (100 * share).toFixed(1).replace(/\.0$/, "");
