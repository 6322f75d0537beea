/**
 * The model's predictions beside figures that it was not fitted to: published ones of GPUs, our own of a CPU.
 * docs/background/planning.md has these tables and explains the outliers.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../core/package-root.js";
import { CPU_CONSTANTS, GPU_CONSTANTS, QUALITY, SPECULATION } from "./data/constants.js";
import type { PublishedFigure } from "./data/published.js";
import { REFERENCE } from "./data/reference.js";
import { checkMeasured } from "./test-measured.js";
import { checkPublished, predictAll } from "./test-published.js";

const published = checkPublished();
const measured = checkMeasured();
const document = readFileSync(join(packageRoot(), "docs/background/planning.md"), "utf8");

const figure = (value: number): string =>
  value >= 1000 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3);
const percent = (error: number): string => `${error >= 0 ? "+" : "−"}${Math.abs(100 * error).toFixed(0)} %`;
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

const publishedRows = published.map(
  ({ what, metric, value, predicted, error, numSiblings }) =>
    `| ${what} | ${metric} | ${figure(value)} | ${figure(predicted)} | ${percent(error)} | ${numSiblings || "–"} |`,
);
const isReference = ({ source }: PublishedFigure): boolean => REFERENCE.some((each) => each.source === source);
const measuredRows = measured.map(
  ({ model, cell, measured: value, predicted, error }) =>
    `| ${model} | ${cell} | ${value.toFixed(1)} | ${predicted.toFixed(1)} | ${percent(error)} |`,
);

test("docs/background/planning.md has every published figure with today's prediction and error", () => {
  const missing = publishedRows.filter((row) => !document.includes(row));
  expect(missing.join("\n")).toBe("");
});

test("docs/background/planning.md has every measured cell with today's prediction and error", () => {
  const missing = measuredRows.filter((row) => !document.includes(row));
  expect(missing.join("\n")).toBe("");
});

test("the README's predictions of the reference image are today's", () => {
  const readme = readFileSync(join(packageRoot(), "README.md"), "utf8");
  const image = published.filter(({ what }) => what.startsWith("reference image, "));
  const [base, fast, ttftBefore, ttftAfter] = image.map(({ predicted }) => predicted);
  const splits = published.filter(({ what, source }) => what === "… ratio" && source.includes("concurrent instances"));
  expect(readme).toContain(`| 823 | *${figure(base!)}* |`);
  expect(readme).toContain(`| 2,000 | *${figure(fast!)}* |`);
  expect(readme).toContain(`*${figure(ttftBefore!)} → ${figure(ttftAfter!)} ms*`);
  expect(readme).toContain(`| 1.92 × | *${figure(splits[1]!.predicted)} ×* |`);
});

test("of what makers and users of engines published, the middle figure is within 10 %", () => {
  const others = published.filter((each) => !isReference(each));
  expect(others.length).toBeGreaterThanOrEqual(30);
  expect(median(others.map(({ error }) => Math.abs(error)))).toBeLessThan(0.1);
  expect(others.filter(({ error }) => Math.abs(error) > 0.2).length).toBeLessThanOrEqual(4);
  expect(others.every(({ numSiblings }) => numSiblings === 0)).toBe(true);
});

test("of the reference documents' figures, at most a fifth are off by more than 25 %", () => {
  const own = published.filter(isReference);
  expect(own.filter(({ error }) => Math.abs(error) > 0.25).length).toBeLessThanOrEqual(own.length / 5);
});

test("no figure helps to predict itself, nor do those made of the same published number", () => {
  const predictedOf = (all: readonly { readonly predicted: number }[], index: number): number => all[index]!.predicted;
  const predictions = predictAll(REFERENCE);
  const before = checkPublished(REFERENCE, predictions);
  const moved = new Set<string>();
  for (const [index, own] of REFERENCE.entries()) {
    const isSame = (other: PublishedFigure): boolean =>
      other === own || (own.readings ?? []).some((reading) => other.readings?.includes(reading) === true);
    const changed = REFERENCE.map((each) => (isSame(each) ? { ...each, value: 3 * each.value } : each));
    const after = checkPublished(changed, predictions);
    expect(predictedOf(after, index), own.what).toBe(predictedOf(before, index));
    for (const [i, { family, metric }] of REFERENCE.entries()) {
      if (predictedOf(after, i) === predictedOf(before, i)) continue;
      // A figure moves only others of the same source and metric.
      expect([family, metric], REFERENCE[i]!.what).toEqual([own.family, own.metric]);
      moved.add(REFERENCE[i]!.what);
    }
  }
  // Other figures' values do count.
  expect(moved.size).toBeGreaterThanOrEqual(5);
});

test("the reference documents' figures are in the table, in their own cases, however far off", () => {
  const cellsOf = ({ of }: PublishedFigure): number => (Array.isArray(of) ? of.length : 1);
  const headline = REFERENCE.filter(({ what }) => what.includes("15 cells"));
  expect(headline.map(cellsOf)).toEqual([15, 15]);
  expect(published.filter(isReference)).toHaveLength(REFERENCE.length);
});

test("on our own machine, from its probes alone, every prefill and decode of one sequence is within 20 %", () => {
  for (const { model, cell, error } of measured) expect(Math.abs(error), `${model} ${cell}`).toBeLessThan(0.2);
});

test("every constant says where it comes from", () => {
  for (const group of [GPU_CONSTANTS, CPU_CONSTANTS, SPECULATION, QUALITY]) {
    for (const [name, { value, source }] of Object.entries(group)) {
      expect(Number.isFinite(value), name).toBe(true);
      expect(source.length, name).toBeGreaterThan(20);
    }
  }
});
