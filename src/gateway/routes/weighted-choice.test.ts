import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { choiceOf, SmoothRoundRobin } from "./weighted-choice.js";

const splits = fc
  .array(fc.integer({ min: 0, max: 100 }), { minLength: 1, maxLength: 6 })
  .filter((weights) => weights.some((weight) => weight > 0))
  .map((weights) => weights.map((weight, index) => ({ model: `m${index}`, weight })));

const sessions = Array.from({ length: 20_000 }, (_, index) => `session ${index}`);

describe("by session", () => {
  test("the same session always gets the same option, which never has weight 0", () => {
    fc.assert(
      fc.property(splits, fc.string(), (options, session) => {
        const chosen = choiceOf(session, options);
        expect(choiceOf(session, options)).toBe(chosen);
        expect(chosen.weight).toBeGreaterThan(0);
      }),
    );
  });

  test("sessions split by the weights", () => {
    const options = [
      { model: "stable", weight: 90 },
      { model: "canary", weight: 7 },
      { model: "other", weight: 3 },
    ];
    for (const { model, weight } of options) {
      const count = sessions.filter((session) => choiceOf(session, options).model === model).length;
      const expected = (sessions.length * weight) / 100;
      expect(Math.abs(count - expected)).toBeLessThan(4 * Math.sqrt(expected));
    }
  });

  test("a greater canary takes sessions from others, and gives none back", () => {
    const at = (weight: number) => [
      { model: "a", weight: 50 },
      { model: "b", weight: 50 },
      { model: "canary", weight },
    ];
    for (const session of sessions.slice(0, 3000)) {
      const [before, after] = [choiceOf(session, at(5)).model, choiceOf(session, at(20)).model];
      if (after !== before) expect(after).toBe("canary");
    }
  });
});

describe("by turns", () => {
  test("each option has had its share of the turns at any time", () => {
    fc.assert(
      fc.property(splits, fc.integer({ min: 1, max: 500 }), (options, numTurns) => {
        const turns = new SmoothRoundRobin();
        const counts = new Map<string, number>();
        for (let i = 0; i < numTurns; i++) {
          const { model } = turns.next(options);
          counts.set(model, (counts.get(model) ?? 0) + 1);
        }
        const total = options.reduce((sum, { weight }) => sum + weight, 0);
        for (const { model, weight } of options) {
          expect(Math.abs((counts.get(model) ?? 0) - (numTurns * weight) / total)).toBeLessThan(options.length);
        }
      }),
    );
  });
});
