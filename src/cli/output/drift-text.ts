/** The drift between two tunings of one load, as lines of text. */
import { visible } from "../../core/visible-text.js";
import type { Objective } from "../../lab/tune/bottleneck.js";
import { type Configuration, flagWords } from "../../lab/tune/configuration.js";
import type { Drift } from "../../lab/tune/drift.js";
import type { Baseline } from "../../lab/tune/loop.js";
import { ratioText } from "../../lab/tune/report.js";
import type { EndedRun } from "../../lab/tune/runs.js";

export function driftLines({ name, previous, drift }: EndedRun, objective: Objective): string[] {
  if (drift === undefined) return [`kept as ${name}, the first run: the next one is compared with it`];
  const { baseline, winner, gain, bottleneck, changes } = drift;
  const [before, now] = [baseline.before, baseline.now].map((each) => baselineText(each, objective));
  const gains = [gain.before, gain.now].map((each) => (each === undefined ? "none" : ratioText(each)));
  const winners = [winner.before, winner.now].map(configurationText);
  return [
    `kept as ${name}, compared with ${previous}:`,
    `first configuration: ${before}, now ${now}: ${verdictText(drift)}`,
    `winner: ${winner.isSame ? `the same, ${winners[1]}` : `${winners[0]}, now ${winners[1]}`}`,
    `gain of the winner: ${gains[0]}, now ${gains[1]}`,
    `bottleneck at first: ${bottleneck.before.bottleneck}, now ${bottleneck.now.bottleneck} (${bottleneck.now.because})`,
    ...(changes.length === 0 ? ["nothing else that is known has changed: versions, machine, model, options"] : []),
    ...changes.map((change) => `changed: ${change.name}: ${valueText(change.before)}, now ${valueText(change.now)}`),
  ];
}

const UNITS: Readonly<Record<Objective, string>> = {
  throughput: "tokens/s",
  goodput: "good requests/s",
  cost: "$ per 1M output tokens",
  ttft: "ms",
  tpot: "ms",
  e2e: "ms",
};

/** Latencies and costs are stored inverted, so that larger is better. */
function baselineText(baseline: Baseline | undefined, objective: Objective): string {
  if (baseline === undefined) return "not known";
  const { values, ttftMs, tpotMs } = baseline;
  const mean = Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
  const shown = objective === "cost" ? 1 / mean : UNITS[objective] === "ms" ? 1000 / mean : mean;
  return `${digits(shown)} ${UNITS[objective]} (ttft ${digits(ttftMs)} ms, tpot ${digits(tpotMs)} ms)`;
}

/** @example digits(9049.8) // "9050" */
const digits = (value: number): string => String(Number(value.toPrecision(3)));

function verdictText({ verdict, ratio, maxDrift }: Drift): string {
  const margin = `±${digits(100 * maxDrift)} %`;
  const measured = ratio === undefined ? "" : `${ratioText(ratio)} as good, `;
  const texts = {
    drifted: `drifted beyond ${margin}`,
    steady: `within ${margin}`,
    open: `open whether within ${margin}`,
  };
  return `${measured}${texts[verdict]}`;
}

const configurationText = (configuration: Configuration): string => {
  const words = flagWords(configuration);
  return words.length === 0 ? "no flags" : visible(words.join(" "));
};

const MAX_SHOWN = 120;

function valueText(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing");
  return visible(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text);
}
