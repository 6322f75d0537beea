import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { uniform } from "../../core/random.js";
import { FEATURE_NAMES, featuresOf } from "./features.js";
import { parseRouter, ROUTER_VERSION, routerScore } from "./router-file.js";
import { binomialCdf, chooseFloor, type Example, trainRouter } from "./train-router.js";

/** Answers that are right with a probability given by their mean log-probability. */
function examplesOf(seed: number, count: number): Example[] {
  const random = uniform(seed);
  return Array.from({ length: count }, () => {
    const logprob = -2 * random() ** 2;
    const tokens = Array.from({ length: 10 }, () => logprob);
    const signals = { text: "yes", finishReason: "stop", hasToolCalls: false, logprobs: tokens, margins: tokens };
    const features = featuresOf({ ...signals, numPromptTokens: 5, numOutputTokens: 10 }, "a question");
    return { features, isAsGood: Number(random() < Math.exp(4 * logprob)) };
  });
}

const fileOf = (trained: ReturnType<typeof trainRouter>) => ({
  version: ROUTER_VERSION,
  small: "s",
  large: "l",
  features: FEATURE_NAMES,
  logistic: trained.logistic,
  isotonic: trained.isotonic,
  floor: trained.floor,
  maxLoss: 0.02,
  trained: { numPairs: 1, numHeldOut: 1, label: "equal", at: "" },
});

describe("a trained router", () => {
  const trained = trainRouter(examplesOf(1, 2000), 0.05);
  const router = parseRouter(JSON.stringify(fileOf(trained)), "router.json");
  const fresh = examplesOf(2, 4000);
  const scores = fresh.map(({ features }) => routerScore(router, features));

  test("keeps answers within the loss that it was trained for, on answers that it has not seen", () => {
    // Even with the true probabilities, no more than 27 % could be kept.
    const isKept = scores.map((score) => score >= router.floor);
    const loss = fresh.filter(({ isAsGood }, i) => isKept[i] && isAsGood === 0).length / fresh.length;
    expect(loss).toBeLessThan(0.06);
    expect(isKept.filter(Boolean).length / fresh.length).toBeGreaterThan(0.22);
  });

  test("says how probable it is that an answer is as good", () => {
    for (const [low, high] of [
      [0, 0.3],
      [0.3, 0.7],
      [0.7, 1],
    ] as const) {
      const chosen = fresh.filter((_, i) => scores[i]! >= low && scores[i]! < high);
      const mean = scores.filter((score) => score >= low && score < high).reduce((sum, each) => sum + each, 0);
      const rate = chosen.filter(({ isAsGood }) => isAsGood === 1).length / chosen.length;
      expect(Math.abs(rate - mean / chosen.length)).toBeLessThan(0.08);
    }
  });
});

test("labels that nothing explains keep nothing", () => {
  const random = uniform(3);
  const noise = examplesOf(4, 600).map(({ features }) => ({ features, isAsGood: Number(random() < 0.5) }));
  expect(trainRouter(noise, 0.02).keptShare).toBeLessThan(0.05);
});

test("the floor's loss is shown to be within the bound", () => {
  const example = fc.tuple(fc.constantFrom(0.5, 0.7, 0.9, 0.99), fc.integer({ min: 0, max: 1 }));
  fc.assert(
    fc.property(fc.array(example, { minLength: 1, maxLength: 300 }), fc.constantFrom(0.01, 0.1, 0.3), (all, bound) => {
      const [probabilities, labels] = [all.map(([p]) => p), all.map(([, label]) => label)];
      const floor = chooseFloor(probabilities, labels, bound);
      const numLost = all.filter(([p, label]) => p >= floor && label === 0).length;
      if (floor < 1) expect(binomialCdf(numLost, all.length, bound)).toBeLessThanOrEqual(0.05);
    }),
  );
});

test("binomial probabilities", () => {
  expect(binomialCdf(0, 10, 0.5)).toBeCloseTo(1 / 1024);
  expect(binomialCdf(5, 10, 0.5)).toBeCloseTo(0.623, 3);
  expect(binomialCdf(3, 1000, 0.01)).toBeCloseTo(0.01007, 4);
  expect(binomialCdf(10, 10, 0.5)).toBe(1);
});

describe("a router's file", () => {
  const good = fileOf(trainRouter(examplesOf(1, 200), 0.05));
  test.each<[string, string]>([
    ["no JSON", "{"],
    ["another version", JSON.stringify({ ...good, version: 9 })],
    ["other features", JSON.stringify({ ...good, features: ["x"] })],
    ["too few weights", JSON.stringify({ ...good, logistic: { ...good.logistic, weights: [1] } })],
    [
      "a scale of zero",
      JSON.stringify({ ...good, logistic: { ...good.logistic, scales: FEATURE_NAMES.map(() => 0) } }),
    ],
    ["an isotonic function of two lengths", JSON.stringify({ ...good, isotonic: { from: [0, 1], values: [0.5] } })],
  ])("with %s is refused", (_, text) => {
    expect(() => parseRouter(text, "router.json")).toThrow(
      /^expected a router of millrace route train in router\.json/,
    );
  });
});

test("features of any text are numbers, as many as have names", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary" }),
      fc.string(),
      fc.array(fc.double({ max: 0, noNaN: true })),
      (text, prompt, logprobs) => {
        const signals = { text, finishReason: "stop", hasToolCalls: false, logprobs, margins: logprobs };
        const features = featuresOf({ ...signals, numPromptTokens: undefined, numOutputTokens: undefined }, prompt);
        expect(features).toHaveLength(FEATURE_NAMES.length);
        expect(features.every(Number.isFinite)).toBe(true);
      },
    ),
  );
});
