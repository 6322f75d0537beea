/** Options of `millrace plan`, and the request they make. */
import { type Command, Option } from "commander";
import { parseSlo } from "../../bench/measure/slo.js";
import type { Slo } from "../../bench/report/schema.js";
import { MillraceError } from "../../core/errors.js";
import { readJsonFile } from "../../formats/huggingface/json.js";
import { type Fit, fittedEfficiencies } from "../../plan/calibrate.js";
import { QUALITY } from "../../plan/data/constants.js";
import { CPU_CORE_HOUR, type DatedPrice, GPU_HOUR } from "../../plan/data/prices.js";
import { QUANTIZATION_IDS, type QuantizationId } from "../../plan/data/quantizations.js";
import type { Machine } from "../../plan/device.js";
import { parseHardware } from "../../plan/hardware.js";
import { KNOWN_NAMES } from "../../plan/known-model.js";
import { readModelShape } from "../../plan/read-model.js";
import {
  OBJECTIVES,
  type Objective,
  PLANNED_ENGINES,
  type PlannedEngine,
  type PlanRequest,
} from "../../plan/request.js";
import { integerIn, numberIn, oneOf, optionError } from "../option-values.js";
import { detectMachine } from "./detect-machine.js";

export interface PlanFlags {
  readonly model?: string;
  readonly hardware: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly concurrency?: number;
  readonly rps?: number;
  readonly slo?: Slo;
  readonly objective: Objective;
  readonly prefixShare: number;
  readonly task: "simple" | "general";
  readonly engine?: PlannedEngine;
  readonly quantization?: QuantizationId;
  readonly maxModelLen?: number;
  readonly minQuality: number;
  readonly price?: number;
  readonly prices?: string;
  readonly calibrate?: string;
  readonly memoryBandwidth?: number;
  readonly multiplySpeed?: number;
  readonly json?: boolean;
}

const MAX_TOKENS = 1 << 24;
const DEFAULT_CONCURRENCY = 16;
const WHAT = "What is served:";
const LOAD = "What is asked of it:";
const TERMS = "On which terms:";
const TOLD = "What is told:";

const grouped = (group: string, flags: string, about: string): Option => new Option(flags, about).helpGroup(group);

export function addPlanOptions(command: Command): Command {
  return command
    .addOption(
      grouped(
        WHAT,
        "--model <model>",
        "a known name (llama-3.3-70b), hf:org/repo, a .gguf file or a folder with config.json",
      ),
    )
    .addOption(
      grouped(WHAT, "--hardware <machine>", "GPUs such as h100x2, cpu-16, cpu (this machine's), or detect").default(
        "detect",
      ),
    )
    .addOption(
      grouped(WHAT, "--engine <engine>", `one of ${PLANNED_ENGINES.join(", ")} (default: by the rules)`).argParser(
        oneOf("--engine", PLANNED_ENGINES),
      ),
    )
    .addOption(
      grouped(WHAT, "--quantization <type>", "weight type to take, gate or no gate (default: by the rules)").argParser(
        oneOf(
          "--quantization",
          QUANTIZATION_IDS.filter((id) => id !== "file"),
        ),
      ),
    )
    .addOption(
      grouped(WHAT, "--max-model-len <n>", "longest sequence (default: twice the mean request)").argParser(
        integerIn("--max-model-len", 1, MAX_TOKENS),
      ),
    )
    .addOption(
      grouped(LOAD, "--input-tokens <n>", "tokens of a prompt")
        .argParser(integerIn("--input-tokens", 1, MAX_TOKENS))
        .default(1024),
    )
    .addOption(
      grouped(LOAD, "--output-tokens <n>", "tokens of an answer")
        .argParser(integerIn("--output-tokens", 1, MAX_TOKENS))
        .default(512),
    )
    .addOption(
      grouped(LOAD, "--concurrency <n>", `requests that are always there (default: ${DEFAULT_CONCURRENCY})`).argParser(
        integerIn("--concurrency", 1, 1 << 20),
      ),
    )
    .addOption(
      grouped(LOAD, "--rps <n>", "requests a second that come, in place of --concurrency").argParser(
        numberIn("--rps", 1e-6, 1e6),
      ),
    )
    .addOption(
      grouped(LOAD, "--prefix-share <share>", "share of each prompt that all have in common, 0 to 1")
        .argParser(numberIn("--prefix-share", 0, 1))
        .default(0),
    )
    .addOption(
      grouped(LOAD, "--task <kind>", "simple: suggest a smaller model")
        .argParser(oneOf("--task", ["general", "simple"]))
        .default("general"),
    )
    .addOption(
      grouped(
        TERMS,
        "--slo <targets>",
        "ttft=200ms,tpot=33ms: to the first token in 95 of 100 requests, between tokens on average",
      ).argParser(planTargets),
    )
    .addOption(
      grouped(TERMS, "--objective <what>", `one of ${OBJECTIVES.join(", ")}`)
        .argParser(oneOf("--objective", OBJECTIVES))
        .default("throughput"),
    )
    .addOption(
      grouped(TERMS, "--min-quality <percent>", "of the unquantised score that a weight type must keep")
        .argParser(numberIn("--min-quality", 0, 100))
        .default(QUALITY.smallestRecovery.value),
    )
    .addOption(
      grouped(TERMS, "--price <usd>", "of a GPU's hour, or of the CPU machine's (default: a dated list)").argParser(
        numberIn("--price", 1e-6, 1e6),
      ),
    )
    .addOption(grouped(TERMS, "--prices <file>", 'JSON with prices of GPU hours: {"h100": 2.5}'))
    .addOption(
      grouped(
        TERMS,
        "--calibrate <file>",
        "fit the speed model to results of `bench engine --json` or `bench kernels --json`",
      ),
    )
    .addOption(
      grouped(TERMS, "--memory-bandwidth <GB/s>", "of this machine's CPU, in place of the probe").argParser(
        numberIn("--memory-bandwidth", 0.1, 1e5),
      ),
    )
    .addOption(
      grouped(
        TERMS,
        "--multiply-speed <GMAC/s>",
        "of this machine's CPU in 8-bit products, in place of the probe",
      ).argParser(numberIn("--multiply-speed", 0.1, 1e7)),
    )
    .addOption(grouped(TOLD, "--json", "everything as JSON"));
}

/** Targets of a plan, in milliseconds. */
function planTargets(text: string): Slo {
  const slo = parseSlo(text);
  if (slo.e2eMs !== undefined) throw optionError("--slo", "of ttft and tpot, which plans predict", text);
  if (slo.ttftMs === 0 || slo.tpotMs === 0) throw optionError("--slo", "above 0", text);
  return slo;
}

function checkEngine(machine: Machine, engine: PlannedEngine | undefined): void {
  const wanted = { millrace: "cpu", vllm: "gpu", sglang: "gpu", "tensorrt-llm": "gpu" } as const;
  if (engine === undefined || engine === "llama-server" || wanted[engine] === machine.kind) return;
  const needs = wanted[engine] === "cpu" ? "computes on a CPU" : "is planned for a GPU";
  throw new MillraceError(
    "invalid_option",
    `expected an --engine for ${machine.device.label}, got ${engine}, which ${needs}`,
    {
      hint: "leave --engine out, or name the other kind of machine",
    },
  );
}

function checkFlags({ concurrency, rps, inputTokens, outputTokens, maxModelLen, price, prices }: PlanFlags): void {
  const contradiction = (message: string, hint: string): MillraceError =>
    new MillraceError("invalid_option", message, { hint });
  if (concurrency !== undefined && rps !== undefined) {
    throw contradiction(
      "expected --concurrency or --rps, got both",
      "one says how many are there, the other how many come",
    );
  }
  if (price !== undefined && prices !== undefined) {
    throw contradiction(
      "expected --price or --prices, got both",
      "--price is for this plan's hardware, --prices a list for all",
    );
  }
  if (maxModelLen !== undefined && inputTokens + outputTokens > maxModelLen) {
    const got = `${inputTokens} + ${outputTokens}`;
    throw contradiction(
      `expected prompt and answer within --max-model-len ${maxModelLen}, got ${got}`,
      "raise --max-model-len",
    );
  }
}

async function machineOf(flags: PlanFlags): Promise<Machine> {
  const isHere = flags.hardware === "detect" || flags.hardware === "cpu";
  if (!isHere && (flags.memoryBandwidth !== undefined || flags.multiplySpeed !== undefined)) {
    throw new MillraceError(
      "invalid_option",
      `expected --hardware cpu or detect beside measured speeds, got ${flags.hardware}`,
      {
        hint: "the table has the speeds of named machines; --calibrate corrects them",
      },
    );
  }
  if (!isHere) return parseHardware(flags.hardware);
  return detectMachine({
    ignoreGpus: flags.hardware === "cpu",
    gigabytesPerS: flags.memoryBandwidth,
    gmacsPerS: flags.multiplySpeed,
  });
}

function priceOf(machine: Machine, { price, prices }: PlanFlags): DatedPrice {
  const { id } = machine.device;
  const now = new Date().toISOString().slice(0, 7);
  if (price !== undefined) return { usd: price, date: now, source: "--price" };
  const own = prices === undefined ? undefined : readJsonFile(prices).number(id);
  if (own !== undefined && own > 0) return { usd: own, date: now, source: prices! };
  if (own !== undefined) throw optionError("--prices", `a file with a positive price of ${id}`, String(own));
  if (machine.kind === "gpu") return GPU_HOUR[id]!;
  return { ...CPU_CORE_HOUR, usd: CPU_CORE_HOUR.usd * machine.device.numCores };
}

export interface MadeRequest {
  readonly request: PlanRequest;
  readonly fit: Fit | undefined;
}

export async function requestOf(flags: PlanFlags): Promise<MadeRequest> {
  checkFlags(flags);
  if (flags.model === undefined) {
    throw new MillraceError("invalid_option", "expected --model, got none", {
      hint: `a .gguf file, a folder, hf:org/repo or one of ${KNOWN_NAMES.join(", ")}`,
    });
  }
  const model = await readModelShape(flags.model);
  const machine = await machineOf(flags);
  checkEngine(machine, flags.engine);
  const fit = flags.calibrate === undefined ? undefined : await fittedEfficiencies(flags.calibrate, machine);
  const { inputTokens, outputTokens, prefixShare, objective, engine, quantization, maxModelLen, slo } = flags;
  const request: PlanRequest = {
    ...{ model, machine, inputTokens, outputTokens, prefixShare, objective, engine, quantization, maxModelLen },
    load:
      flags.rps === undefined ? { concurrency: flags.concurrency ?? DEFAULT_CONCURRENCY } : { requestsPerS: flags.rps },
    slo: { ttftMs: slo?.ttftMs, tpotMs: slo?.tpotMs },
    isSimpleTask: flags.task === "simple",
    smallestRecovery: flags.minQuality,
    price: priceOf(machine, flags),
    efficiencies: fit?.efficiencies,
  };
  return { request, fit };
}
