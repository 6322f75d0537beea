/** Options of `millrace plan`. */

import { type Command, Option } from "commander";
import { parseLatencyTargets, type Slo } from "../../core/slo.js";
import { QUALITY } from "../../plan/data/constants.js";
import { PLANNED_ENGINES, type PlannedEngine } from "../../plan/data/engines.js";
import { QUANTIZATION_IDS, type QuantizationId } from "../../plan/data/quantizations.js";
import { MOST_HOSTS } from "../../plan/layouts.js";
import { OBJECTIVES, type Objective } from "../../plan/request.js";
import { integerIn, numberIn, oneOf } from "../flags/option-values.js";

export interface PlanFlags {
  readonly model?: string;
  readonly hardware: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly concurrency?: number;
  readonly rps?: number | undefined;
  readonly requestsPerSecond?: number;
  readonly slo?: Slo;
  readonly hosts?: number;
  readonly network?: number;
  readonly hostMemory?: number;
  readonly hostBandwidth?: number;
  readonly objective: Objective;
  readonly prefixShare: number;
  readonly task: "simple" | "general";
  readonly engine?: PlannedEngine;
  readonly quantization?: QuantizationId;
  readonly allowPublishedQuantization?: boolean;
  readonly knownCheckpoints?: boolean;
  readonly maxModelLen?: number;
  readonly minQuality: number;
  readonly price?: number;
  readonly prices?: string;
  readonly calibrate?: string;
  readonly measure?: boolean;
  readonly memoryBandwidth?: number;
  readonly multiplySpeed?: number;
  readonly json?: boolean;
}

const MAX_TOKENS = 1 << 24;
export const DEFAULT_CONCURRENCY = 16;
/** Dollars per hour. */
export const [LEAST_PRICE, MOST_PRICE] = [1e-6, 1e6] as const;
const WHAT = "What is served:";
const LOAD = "What is asked of it:";
const TERMS = "On which terms:";
const TOLD = "What is told:";

const grouped = (group: string, flags: string, about: string): Option => new Option(flags, about).helpGroup(group);

/** The model, the machine, and choices that replace the rules'. */
const servedOptions = (): readonly Option[] => [
  grouped(
    WHAT,
    "--model <model>",
    "a known name (llama-3.3-70b), hf:org/repo, a .gguf file or a folder with config.json",
  ),
  grouped(WHAT, "--hardware <machine>", "GPUs such as h100x2, cpu-16, cpu (this machine's), or detect").default(
    "detect",
  ),
  grouped(
    WHAT,
    "--hosts <n>",
    "machines of this kind that one instance may span, where one does not hold the model (default: 1)",
  ).argParser(integerIn("--hosts", 1, MOST_HOSTS)),
  grouped(
    WHAT,
    "--network <Gbit/s>",
    "bandwidth between two of these machines, per direction (default: 400, a port of InfiniBand NDR)",
  ).argParser(numberIn("--network", 0.1, 1e5)),
  grouped(
    WHAT,
    "--host-memory <GiB>",
    "memory beside one GPU that may hold experts of a mixture, which llama-server's CPU part computes",
  ).argParser(numberIn("--host-memory", 1, 1e5)),
  grouped(
    WHAT,
    "--host-bandwidth <GB/s>",
    "bandwidth of that memory (default: 89.6, two channels of DDR5-5600)",
  ).argParser(numberIn("--host-bandwidth", 1, 1e4)),
  grouped(WHAT, "--engine <engine>", `one of ${PLANNED_ENGINES.join(", ")} (default: by the rules)`).argParser(
    oneOf("--engine", PLANNED_ENGINES),
  ),
  grouped(WHAT, "--quantization <type>", "weight type to take, whatever its quality (default: by the rules)").argParser(
    oneOf(
      "--quantization",
      QUANTIZATION_IDS.filter((id) => id !== "file"),
    ),
  ),
  grouped(
    WHAT,
    "--allow-published-quantization",
    "let the rules choose weights, keys and values that published figures alone speak for, unmeasured on this model's file",
  ),
  grouped(WHAT, "--known-checkpoints", "choose only weights of which a published checkpoint is known"),
  grouped(
    WHAT,
    "--max-model-len <n>",
    "longest sequence (default: the model's context, as far as memory holds one)",
  ).argParser(integerIn("--max-model-len", 1, MAX_TOKENS)),
];

/** The traffic. */
const loadOptions = (): readonly Option[] => [
  grouped(LOAD, "--input-tokens <n>", "tokens of a prompt")
    .argParser(integerIn("--input-tokens", 1, MAX_TOKENS))
    .default(1024),
  grouped(LOAD, "--output-tokens <n>", "tokens of an answer")
    .argParser(integerIn("--output-tokens", 1, MAX_TOKENS))
    .default(512),
  grouped(LOAD, "--concurrency <n>", `requests at once (default: ${DEFAULT_CONCURRENCY})`).argParser(
    integerIn("--concurrency", 1, 1 << 20),
  ),
  grouped(
    LOAD,
    "--rps <n>",
    "requests a second, instead of --concurrency; more than one machine serves are answered as a fleet",
  ).argParser(numberIn("--rps", 1e-6, 1e6)),
  grouped(LOAD, "--requests-per-second <n>", "the same as --rps")
    .argParser(numberIn("--requests-per-second", 1e-6, 1e6))
    .conflicts("rps"),
  grouped(LOAD, "--prefix-share <share>", "share of each prompt that all have in common, 0 to 1")
    .argParser(numberIn("--prefix-share", 0, 1))
    .default(0),
  grouped(LOAD, "--task <kind>", "simple: suggest a smaller model")
    .argParser(oneOf("--task", ["general", "simple"]))
    .default("general"),
];

/** Targets, prices, quality, and the source of speeds. */
const termOptions = (): readonly Option[] => [
  grouped(
    TERMS,
    "--slo <targets>",
    "targets such as ttft=200ms,tpot=33ms: first token of 95 requests in 100, mean time between tokens",
  ).argParser(parseLatencyTargets),
  grouped(TERMS, "--objective <what>", `one of ${OBJECTIVES.join(", ")}`)
    .argParser(oneOf("--objective", OBJECTIVES))
    .default("throughput"),
  grouped(TERMS, "--min-quality <percent>", "share of the unquantised score that a weight type must keep, in percent")
    .argParser(numberIn("--min-quality", 0, 100))
    .default(QUALITY.smallestRecovery.value),
  grouped(TERMS, "--price <usd>", "price of a GPU's hour, or of the CPU machine's (default: a dated list)").argParser(
    numberIn("--price", LEAST_PRICE, MOST_PRICE),
  ),
  grouped(TERMS, "--prices <file>", 'JSON with prices of GPU hours: {"h100": 2.5}'),
  grouped(
    TERMS,
    "--calibrate <file>",
    "fit the speed model to results of `bench run` (--out), `bench engine` or `bench kernels` (--json)",
  ),
  grouped(
    TERMS,
    "--measure",
    "measure the model's file on this machine's CPU first, fit the speed model to it, and say by how much it was off",
  ).conflicts("calibrate"),
  grouped(TERMS, "--memory-bandwidth <GB/s>", "memory bandwidth of this machine's CPU, instead of the probe").argParser(
    numberIn("--memory-bandwidth", 0.1, 1e5),
  ),
  grouped(
    TERMS,
    "--multiply-speed <GMAC/s>",
    "speed of this machine's CPU in 8-bit products, instead of the probe",
  ).argParser(numberIn("--multiply-speed", 0.1, 1e7)),
  grouped(TOLD, "--json", "everything as JSON"),
];

export function addPlanOptions(command: Command): Command {
  for (const option of [...servedOptions(), ...loadOptions(), ...termOptions()]) command.addOption(option);
  return command;
}
