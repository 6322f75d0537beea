/**
 * What lm-evaluation-harness found for each item of its tasks, as test/fixtures/make-lm-eval-numbers.py writes it,
 * against our results.
 */
import { expect } from "vitest";
import type { TaskResult } from "../../src/quality/run-task.js";

type Value = number | readonly [number, number];

export type HarnessNumbers = Readonly<
  Record<
    string,
    {
      readonly results: Readonly<Record<string, number>>;
      readonly items: readonly {
        readonly prompt: string;
        readonly answer?: string;
        readonly logprobs?: readonly number[];
        readonly filtered?: Readonly<Record<string, string>>;
        readonly metrics: Readonly<Record<string, Value>>;
      }[];
    }
  >
>;

/** Of numbers: JSON has nine digits of them. */
const LARGEST_ERROR = 1e-8;

/** The largest relative difference of any number; texts and numbers of items must be equal. */
export function expectSameNumbers(
  tasks: readonly Omit<TaskResult, "tokensPerS" | "seconds">[],
  harness: HarnessNumbers,
): number {
  expect(tasks.map(({ task }) => task).sort()).toEqual(Object.keys(harness).sort());
  let largest = 0;
  const compare = (place: string, ours: Value | undefined, theirs: Value): void => {
    const [own, other] = [[ours ?? Number.NaN].flat(), [theirs].flat()];
    for (const [index, value] of other.entries()) {
      const error = Math.abs(own[index]! - value) / Math.max(1, Math.abs(value));
      expect(error, `${place}: ${ours} here, ${theirs} there`).toBeLessThan(LARGEST_ERROR);
      largest = Math.max(largest, error);
    }
  };
  for (const { task, items, metrics = {} } of tasks) {
    const { results, items: others } = harness[task]!;
    expect(items).toHaveLength(others.length);
    for (const [index, other] of others.entries()) {
      const own = items[index]!;
      const place = `${task}, item ${index}`;
      // The harness keeps the text that is scored where nothing is asked.
      expect([own.prompt[0]!.content, own.expected], place).toContain(other.prompt);
      if (other.answer !== undefined)
        expect(own, place).toMatchObject({ answer: other.answer, filtered: other.filtered });
      for (const [at, value] of (own.logprobs ?? []).entries()) compare(place, value, other.logprobs![at]!);
      expect(Object.keys(own.metrics ?? {}).sort(), place).toEqual(Object.keys(other.metrics).sort());
      for (const [name, value] of Object.entries(other.metrics))
        compare(`${place}, ${name}`, own.metrics?.[name], value);
    }
    expect(Object.keys(metrics), task).not.toEqual([]);
    for (const [name, { value, stderr }] of Object.entries(metrics)) {
      compare(`${task}, ${name}`, value, results[name]!);
      if (stderr !== undefined) compare(`${task}, error of ${name}`, stderr, results[name.replace(",", "_stderr,")]!);
    }
  }
  return largest;
}
