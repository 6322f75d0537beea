/** Judges with known errors: their calibration, the corrected win rate, and a gate's verdict. */
import { expect, test } from "vitest";
import { uniform } from "../../core/random.js";
import type { Judgement } from "../../text/judge/preference.js";
import {
  calibrate,
  correctedRate,
  type HumanVerdict,
  judgeGate,
  type LabelledPair,
  ratioWithin,
} from "./calibration.js";
import { biasOf, type JudgedPair, winRateOf } from "./judged-pair.js";

const pair = (judgement: Judgement): JudgedPair => ({ judgement, replies: [], lengths: [1, 1] });
const label = (human: HumanVerdict, judgement: Judgement): LabelledPair => ({ ...pair(judgement), human });
const times = <T>(count: number, value: T): T[] => new Array<T>(count).fill(value);

test("the win rate counts ties half and leaves out pairs without a verdict", () => {
  const pairs = [...times(30, "won"), ...times(50, "tied"), ...times(20, "lost"), ...times(7, "none")] as Judgement[];
  const { rate, interval, ...counts } = winRateOf(pairs.map(pair));
  expect(counts).toEqual({ numPairs: 107, numWon: 30, numTied: 50, numLost: 20, numNone: 7 });
  expect(rate).toBeCloseTo(0.55, 10);
  // Tango's interval of the difference 0.1 with 30 and 20 of 100, halved.
  expect(interval[0]).toBeCloseTo(0.4806, 2);
  expect(interval[1]).toBeCloseTo(0.6189, 2);
  expect(winRateOf([]).interval).toEqual([0, 1]);
});

test("agreement, chance and kappa are those of the textbook", () => {
  // Cohen's kappa of the table [[20, 5], [10, 15]] is 0.4.
  const pairs = [
    ...times(20, label("won", "won")),
    ...times(5, label("won", "lost")),
    ...times(10, label("lost", "won")),
    ...times(15, label("lost", "lost")),
  ];
  const calibration = calibrate(pairs);
  expect(calibration).toMatchObject({ numLabels: 50, numNone: 0, agreement: 0.7, isFit: true });
  expect(calibration.chance).toBeCloseTo(0.5, 10);
  expect(calibration.kappa).toBeCloseTo(0.4, 10);
  expect(calibration.discrimination).toBeCloseTo(0.4, 10);
});

test("a judge without verdicts, with one verdict for all, or with few labels is not fit, and decides nothing", () => {
  const people = (index: number): HumanVerdict => (index % 2 === 0 ? "won" : "lost");
  const judges: Judgement[] = ["none", "tied", "won"];
  const winRate = winRateOf(times(1000, pair("won")));
  for (const said of judges) {
    const calibration = calibrate(Array.from({ length: 200 }, (_, index) => label(people(index), said)));
    expect({ said, isFit: calibration.isFit }).toEqual({ said, isFit: false });
    expect(judgeGate(winRate, calibration, 0.5)).toBe("refused");
    expect(correctedRate(winRate, calibration)).toBeUndefined();
  }
  expect(calibrate([label("won", "won")]).isFit).toBe(false);
  expect(calibrate([]).isFit).toBe(false);
});

const RIGHT = 0.7;
const TIES = 0.15;

/** Errs equally for either side: right, a tie, or wrong; where people see no better answer, it prefers either. */
function judgedBy(random: () => number, human: HumanVerdict): Judgement {
  const draw = random();
  if (human === "tied") return draw < 0.4 ? "won" : draw < 0.8 ? "lost" : "tied";
  if (draw < RIGHT) return human;
  if (draw < RIGHT + TIES) return "tied";
  return human === "won" ? "lost" : "won";
}

function drawn(random: () => number, won: number, tied: number): HumanVerdict {
  const draw = random();
  return draw < won ? "won" : draw < won + tied ? "tied" : "lost";
}

test("the corrected interval holds the people's win rate in 95 of 100 simulations, where the judge's own misses it", () => {
  const random = uniform(5);
  const [won, tied] = [0.6, 0.2];
  const truth = won + tied / 2;
  let [numHeld, numRaw] = [0, 0];
  const numRuns = 400;
  for (let run = 0; run < numRuns; run++) {
    const labels = Array.from({ length: 200 }, () => {
      const human = drawn(random, 0.4, 0.2);
      return label(human, judgedBy(random, human));
    });
    const winRate = winRateOf(Array.from({ length: 500 }, () => pair(judgedBy(random, drawn(random, won, tied)))));
    const [low, high] = correctedRate(winRate, calibrate(labels))!.interval;
    if (low <= truth && truth <= high) numHeld++;
    if (winRate.interval[0] <= truth && truth <= winRate.interval[1]) numRaw++;
  }
  expect(numHeld / numRuns).toBeGreaterThan(0.92);
  expect(numHeld / numRuns).toBeLessThan(0.985);
  expect(numRaw / numRuns).toBeLessThan(0.3);
});

test("a judge that draws its replies is taken for fit in at most 5 of 100 calibrations", () => {
  const random = uniform(3);
  const verdicts: Judgement[] = ["won", "tied", "lost"];
  let numFit = 0;
  for (let run = 0; run < 1000; run++) {
    const labels = Array.from({ length: 100 }, () =>
      label(drawn(random, 0.45, 0.1), verdicts[Math.floor(3 * random())]!),
    );
    numFit += Number(calibrate(labels).isFit);
  }
  expect(numFit).toBeLessThan(50);
});

test("the gate passes, fails and waits by the people's losses, and counts a missing verdict as a loss", () => {
  const sure = calibrate([...times(150, label("won", "won")), ...times(150, label("lost", "lost"))]);
  const of = (won: number, lost: number, none = 0) =>
    winRateOf([...times(won, pair("won")), ...times(lost, pair("lost")), ...times(none, pair("none"))]);
  expect(judgeGate(of(500, 480), sure, 0.1)).toBe("passes");
  expect(judgeGate(of(300, 700), sure, 0.1)).toBe("fails");
  expect(judgeGate(of(45, 55), sure, 0.1)).toBe("undecided");
  expect(judgeGate(of(500, 480, 300), sure, 0.1)).toBe("fails");
});

test("a ratio's interval is the value's own for a certain divisor, and wider for an uncertain one", () => {
  const [low, high] = ratioWithin(0.2, [0.1, 0.3], 0.5, [0.5, 0.5]);
  expect([low, high]).toEqual([expect.closeTo(0.2, 6), expect.closeTo(0.6, 6)]);
  const wide = ratioWithin(0.2, [0.1, 0.3], 0.5, [0.3, 0.7]);
  expect(wide[0]).toBeLessThan(low);
  expect(wide[1]).toBeGreaterThan(high);
  const mirrored = ratioWithin(-0.2, [-0.3, -0.1], 0.5, [0.3, 0.7]);
  expect(mirrored).toEqual([expect.closeTo(-wide[1], 6), expect.closeTo(-wide[0], 6)]);
  expect(ratioWithin(0.5, [0.4, 0.6], 0.1, [0.001, 0.3])[1]).toBeCloseTo(1, 6);
});

test("a preference for the first place and for length shows", () => {
  const byPlace = biasOf(times(50, { judgement: "tied", replies: ["first", "first"], lengths: [9, 9] } as JudgedPair));
  expect(byPlace).toMatchObject({ firstShare: 1, consistency: 0, length: undefined });
  expect(byPlace.firstInterval[0]).toBeGreaterThan(0.9);
  const byLength = Array.from({ length: 60 }, (_, index): JudgedPair => {
    const isLonger = index % 2 === 0;
    return {
      judgement: isLonger ? "won" : "lost",
      replies: isLonger ? ["first", "second"] : ["second", "first"],
      lengths: isLonger ? [200, 100 + index] : [100 + index, 200],
    };
  });
  const { firstShare, consistency, length } = biasOf(byLength);
  expect({ firstShare, consistency }).toEqual({ firstShare: 0.5, consistency: 1 });
  expect(length!.interval[0]).toBeGreaterThan(0.8);
  expect(length!.value).toBeLessThanOrEqual(1);
});
