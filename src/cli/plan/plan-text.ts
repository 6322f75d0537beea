/** A plan in the terminal: the ranking, then the best configuration with its memory, reasons and command. */

import { formatUsd } from "../../core/quantities.js";
import type { Fit } from "../../plan/calibrate.js";
import { hasTargets } from "../../plan/evaluate.js";
import { gibibytes } from "../../plan/fitting.js";
import { machineLabel } from "../../plan/hardware.js";
import type { Configuration, Plan, PlanRequest } from "../../plan/request.js";
import { sharingText } from "../../plan/sharing.js";
import { FLOOD } from "../../plan/splits.js";
import { warningsOf } from "../../plan/warnings.js";
import { formatTable } from "../output/format.js";
import { HEAD, type Launch, launchesOf } from "./launch-command.js";

const MAX_LINE = 118;

export const rounded = (value: number): string =>
  !Number.isFinite(value)
    ? "∞"
    : value >= 100
      ? Math.round(value).toLocaleString("en-US")
      : value.toPrecision(value >= 10 ? 3 : 2);

export function loadText({ load, inputTokens, outputTokens, prefixShare, slo, objective }: PlanRequest): string {
  const many = "concurrency" in load ? `${load.concurrency} at once` : `${load.requestsPerS} requests/s`;
  const shared = prefixShare > 0 ? `, ${Math.round(100 * prefixShare)} % of prompts shared` : "";
  const targets = [
    ...(slo.ttftMs === undefined ? [] : [`TTFT p95 ≤ ${slo.ttftMs} ms`]),
    ...(slo.tpotMs === undefined ? [] : [`TPOT ≤ ${slo.tpotMs} ms`]),
  ];
  return `${inputTokens} tokens in, ${outputTokens} out, ${many}${shared}; objective ${objective}${targets.length > 0 ? `; ${targets.join(", ")}` : ""}`;
}

export function shapeText(configuration: Configuration, isCpu: boolean): string {
  const { instances } = configuration;
  return isCpu ? `${instances} instance${instances > 1 ? "s" : ""}` : `${instances} × ${sharingText(configuration)}`;
}

export const HEADERS = [
  "#",
  "weights",
  "instances",
  "KV",
  "drafts",
  "holds",
  "TTFT ms",
  "p95",
  "TPOT ms",
  "tokens/s",
  "per user",
  "$/M out",
  "$/M all",
  "targets",
];

/** @param hasTargets false: the row does not judge targets */
export function rowOf(configuration: Configuration, index: number, isCpu: boolean, hasTargets: boolean): string[] {
  const { quantization, kv, drafting, lookups, prediction, cost, meetsSlo, sustainableConcurrency } = configuration;
  return [
    String(index + 1),
    quantization.label,
    shapeText(configuration, isCpu),
    kv.id === "16" ? "16 bits" : kv.id,
    drafting !== undefined ? String(drafting.depth) : lookups === undefined ? "–" : "lookup",
    String(sustainableConcurrency),
    rounded(prediction.ttftMs),
    rounded(prediction.ttftP95Ms),
    rounded(prediction.tpotMs),
    rounded(prediction.outputTokensPerS),
    rounded(prediction.tokensPerSPerUser),
    formatUsd(cost.usdPerMillionOutput),
    formatUsd(cost.usdPerMillionTotal),
    !meetsSlo ? "missed" : prediction.isSaturated ? "queues" : hasTargets ? "met" : "–",
  ];
}

function memoryText({ memory }: Configuration, what: string): string {
  const parts = [
    `weights ${gibibytes(memory.weightBytes)}`,
    `keys and values ${gibibytes(memory.kvBytes)}`,
    `activations ${gibibytes(memory.activationBytes)}`,
    ...(memory.drafterBytes > 0 ? [`drafter ${gibibytes(memory.drafterBytes)}`] : []),
    `runtime ${gibibytes(memory.runtimeBytes)}`,
    `left free ${gibibytes(memory.headroomBytes)}`,
  ];
  return `${gibibytes(memory.totalBytes)} of ${what}: ${parts.join(", ")}`;
}

/** Lines of at most MAX_LINE characters, the later ones indented. */
export function wrapped(text: string, indent: string): string {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1)!;
    if (line !== "" && line.length + word.length + indent.length >= MAX_LINE) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines.join(`\n${indent}`);
}

function launchLines(launches: readonly Launch[], numHosts: number): string[] {
  const [launch] = launches as readonly [Launch];
  const files = Object.entries(launch.files ?? {}).flatMap(([path, text]) => [
    `  with ${path}:`,
    ...text
      .trimEnd()
      .split("\n")
      .map((line) => `    ${line}`),
  ]);
  const variables = Object.entries(launch.env)
    .map(([name, value]) => `${name}=${value} `)
    .join("");
  const where = `${HEAD} is the first host's address, which answers requests`;
  const heading = numHosts === 1 ? "each instance on a port of its own" : `one instance on ${numHosts} hosts; ${where}`;
  const ofRank = (rank: number): string => (launches.length === 1 ? "" : `host ${rank}: `);
  return [
    `start (${heading})`,
    ...launches.map(({ text }, rank) => `  ${ofRank(rank)}${variables}${text}`),
    ...files,
    ...launch.notices.map((notice) => `  ${wrapped(notice, "  ")}`),
  ];
}

export const warningLines = (request: PlanRequest, best: Configuration): string[] =>
  warningsOf(request, best).map((warning) => `WARNING ${wrapped(warning, "        ")}.`);

function bestLines(request: PlanRequest, best: Configuration): string[] {
  const isCpu = request.machine.kind === "cpu";
  const isUnpulled = best.engine === "llama-server" && best.options.model.startsWith("hf:");
  const pull = `${best.options.model}: millrace boot and millrace pull fetch it; llama-server itself takes the file's path`;
  const needs = isUnpulled ? [...best.needs, pull] : best.needs;
  return [
    `1: ${best.quantization.label}, ${shapeText(best, isCpu)}, ${best.engine}`,
    `memory  ${wrapped(memoryText(best, isCpu ? "memory" : "each GPU"), "        ")}`,
    `holds   ${best.seats} ${best.seats === 1 ? "sequence" : "sequences"} of ${request.inputTokens + request.outputTokens} tokens in the memory of an instance; ${best.sustainableConcurrency} at once ${hasTargets(request) ? "within the targets" : "in all instances"}; ${formatUsd(best.cost.usdPerHour)} an hour`,
    ...warningLines(request, best),
    "why",
    ...best.choices.map(({ about, choice, because }) => `  ${wrapped(`${about}: ${choice}. ${because}.`, "    ")}`),
    ...(needs.length > 0 ? ["needs", ...needs.map((need) => `  ${wrapped(need, "    ")}`)] : []),
    ...launchLines(launchesOf(best), best.pipelineParallel ?? 1),
  ];
}

/** Splits beside the published figures, which have other lengths and loads. */
function splitLines(splits: Plan["splits"]): string[] {
  if (splits.length === 0) return [];
  const [first] = splits;
  const hasPublished = splits.some(({ published }) => published !== undefined);
  const beside = (value: number | undefined, base: number | undefined): string =>
    value === undefined || base === undefined ? "–" : `${rounded(value)} (${(value / base).toFixed(2)} ×)`;
  const rows = splits.map((each) => [
    `${each.instances} × TP${each.tensorParallel}`,
    beside(each.outputTokensPerS, first!.outputTokensPerS),
    beside(each.floodedTokensPerS, first!.floodedTokensPerS),
    ...(hasPublished ? [beside(each.published, first!.published)] : []),
  ]);
  const headers = ["", "tokens/s", `with ${rounded(FLOOD)} at once`, ...(hasPublished ? ["published"] : [])];
  return [
    "",
    "instances × GPUs: the same weights, as many instances as the GPUs have room for",
    formatTable([headers, ...rows]),
  ];
}

const cellText = ({ cell, error }: Fit["cells"][number]): string =>
  `${cell} ${error < 0 ? "−" : "+"}${Math.abs(100 * error).toFixed(0)} %`;

export function textOf(
  { request, configurations, refusals, suggestions, splits }: Plan,
  fit: Fit | undefined,
  top: number,
): string {
  const { machine, model, price } = request;
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  const calibrated =
    fit === undefined
      ? []
      : [
          `calibrated on ${fit.source}: ${percent(fit.efficiencies.memoryShare)} of the bandwidth, ${percent(fit.efficiencies.computeShare)} of the arithmetic${
            fit.errorAfter === undefined
              ? ""
              : `; mean error ${percent(fit.errorBefore!)} before, ${percent(fit.errorAfter)} after`
          }`,
          ...(fit.cells.length > 0 ? [wrapped(`  before: ${fit.cells.map(cellText).join("; ")}`, "  ")] : []),
        ];
  const isCpu = machine.kind === "cpu";
  const rows = configurations.slice(0, top).map((each, index) => rowOf(each, index, isCpu, hasTargets(request)));
  return [
    `${model.name} on ${machineLabel(machine)}`,
    loadText(request),
    wrapped(
      `${formatUsd(price.usd)} ${isCpu ? "an hour" : "a GPU and hour"} (${price.source}, ${price.date}); numbers of the model: ${model.source}`,
      "",
    ),
    ...calibrated,
    "",
    formatTable([HEADERS, ...rows]),
    wrapped(
      `holds: requests at once in all instances ${hasTargets(request) ? "within the targets" : "before one waits for memory"}; TTFT: mean time to the first token, p95: what 95 of 100 stay under; TPOT: mean time between two tokens of a user; tokens/s: output tokens of all users; $/M: dollars per million output tokens, and per million of prompts and answers`,
      "",
    ),
    ...(configurations.length > top
      ? [`(${configurations.length - top} more with --top ${configurations.length})`]
      : []),
    ...splitLines(splits),
    "",
    ...bestLines(request, configurations[0]!),
    ...(refusals.length > 0
      ? ["not used", ...refusals.map(({ what, because }) => `  ${wrapped(`${what}: ${because}.`, "    ")}`)]
      : []),
    ...suggestions.map((suggestion) => wrapped(suggestion, "  ")),
    "",
    "Predicted, not measured: measure the winner with millrace bench run. docs/background/planning.md says how far such predictions have been off.",
  ].join("\n");
}
