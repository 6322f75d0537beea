/** From the flags of `millrace plan` to a checked request: model, machine, prices and calibration. */

import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import { readJsonFile } from "../../formats/files/json.js";
import { expertsOf } from "../../model/description/sizes.js";
import { type Fit, fittedEfficiencies } from "../../plan/calibrate.js";
import { fitServing, servingReport } from "../../plan/calibrate-serving.js";
import type { Machine } from "../../plan/data/device.js";
import type { PlannedEngine } from "../../plan/data/engines.js";
import type { DatedPrice } from "../../plan/data/prices.js";
import { machineLabel, parseHardware } from "../../plan/hardware.js";
import { KNOWN_NAMES } from "../../plan/known-model.js";
import { MULTI_HOST_ENGINES } from "../../plan/layouts.js";
import { makePlan } from "../../plan/plan.js";
import type { PlannedModel } from "../../plan/planned-model.js";
import { readPlannedModel } from "../../plan/read-model.js";
import type { PlanRequest } from "../../plan/request.js";
import { withEngineBytes } from "../../plan/rules.js";
import { detectMachine } from "./detect-machine.js";
import { givenPrice, listPrice } from "./machine-price.js";
import { DEFAULT_CONCURRENCY, LEAST_PRICE, MOST_PRICE, type PlanFlags } from "./plan-options.js";

/** Large, since a report of bench run has every request. */
const MAX_RESULT_BYTES = 1 << 29;

function checkEngine(machine: Machine, engine: PlannedEngine | undefined): void {
  const wanted = { millrace: "cpu", vllm: "gpu", sglang: "gpu", "tensorrt-llm": "gpu", tgi: "gpu" } as const;
  if (engine === undefined || engine === "llama-server" || engine === "ollama" || wanted[engine] === machine.kind)
    return;
  const needs = wanted[engine] === "cpu" ? "computes on a CPU" : "is planned for a GPU";
  throw new MillraceError(
    "invalid_option",
    `expected an --engine for ${machine.device.label}, got ${engine}, which ${needs}`,
    {
      hint: "leave --engine out, or name the other kind of machine",
    },
  );
}

const contradiction = (message: string, hint: string): MillraceError =>
  new MillraceError("invalid_option", message, { hint });

function checkFlags({ concurrency, rps, inputTokens, outputTokens, maxModelLen, price, prices }: PlanFlags): void {
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

function checkHosts({ hosts = 1, network }: PlanFlags, machine: Machine, engine: PlannedEngine | undefined): void {
  if (hosts === 1 && network !== undefined)
    throw contradiction(
      "expected --hosts of 2 or more beside --network, got one host",
      "add --hosts 2, or leave --network out",
    );
  if (hosts === 1) return;
  if (machine.kind === "cpu") throw optionError("--hosts", "GPUs as --hardware", machine.device.label);
  if (engine !== undefined && !MULTI_HOST_ENGINES.some((each) => each === engine))
    throw optionError("--hosts", `an --engine of ${MULTI_HOST_ENGINES.join(", ")}`, engine);
}

function checkHostMemory(
  { hostMemory, hostBandwidth, engine, hosts = 1 }: PlanFlags,
  model: PlannedModel,
  machine: Machine,
): void {
  if (hostMemory === undefined) {
    if (hostBandwidth !== undefined) {
      throw contradiction(
        "expected --host-memory beside --host-bandwidth, got none",
        "say how much memory the host has",
      );
    }
    return;
  }
  const of = (expected: string, got: string): never => {
    const hint = "the host's memory holds experts of a mixture on one GPU, under llama-server; leave --host-memory out";
    throw contradiction(`expected ${expected} beside --host-memory, got ${got}`, hint);
  };
  if (machine.kind === "cpu" || machine.count > 1) of("one GPU as --hardware", machineLabel(machine));
  if (engine !== undefined && engine !== "llama-server") of("--engine llama-server", engine);
  if (hosts > 1) of("--hosts 1", String(hosts));
  if (expertsOf(model) === undefined) of("a mixture of experts as --model", model.name);
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
  if (price !== undefined) return givenPrice(price, "--price");
  const own = prices === undefined ? undefined : readJsonFile(prices).number(id);
  if (own !== undefined && own >= LEAST_PRICE && own <= MOST_PRICE) return givenPrice(own, prices!);
  if (own !== undefined)
    throw optionError("--prices", `a file with a price of ${id} in [${LEAST_PRICE}, ${MOST_PRICE}]`, String(own));
  return listPrice(machine);
}

/** Chooses the fit by the kind of results in the file. */
async function fitOf(file: string, request: PlanRequest): Promise<Fit> {
  const serving = servingReport(readJsonFile(file, MAX_RESULT_BYTES).raw);
  if (serving === undefined) return fittedEfficiencies(file, request.machine);
  const [first] = makePlan(request).configurations;
  const fit = first === undefined ? undefined : fitServing(request, first, serving, file);
  if (fit !== undefined) return fit;
  throw new MillraceError("invalid_option", `expected runs with results in ${file}, got none`, {
    hint: "measure the server that the plan describes with millrace bench run --out",
  });
}

async function chosenFit({ calibrate, measure, hardware }: PlanFlags, request: PlanRequest): Promise<Fit | undefined> {
  if (calibrate !== undefined) return fitOf(calibrate, request);
  if (measure !== true) return undefined;
  const { measuredFit } = await import("./measure.js");
  return measuredFit(request, hardware === "detect" || hardware === "cpu");
}

export interface MadeRequest {
  readonly request: PlanRequest;
  readonly fit: Fit | undefined;
}

export async function requestOf(given: PlanFlags): Promise<MadeRequest> {
  const flags = { ...given, rps: given.rps ?? given.requestsPerSecond };
  checkFlags(flags);
  if (flags.model === undefined) {
    throw new MillraceError("invalid_option", "expected --model, got none", {
      hint: `a .gguf file, a folder, hf:org/repo or one of ${KNOWN_NAMES.join(", ")}`,
    });
  }
  const model = await readPlannedModel(flags.model);
  const machine = await machineOf(flags);
  checkEngine(machine, flags.engine);
  checkHosts(flags, machine, flags.engine);
  checkHostMemory(flags, model, machine);
  const { inputTokens, outputTokens, prefixShare, objective, engine, quantization, maxModelLen, slo } = flags;
  const request: PlanRequest = withEngineBytes({
    model,
    machine,
    inputTokens,
    outputTokens,
    prefixShare,
    objective,
    engine,
    quantization,
    allowsPublished: flags.allowPublishedQuantization,
    onlyPublished: flags.knownCheckpoints,
    maxModelLen,
    hostMemoryBytes: flags.hostMemory === undefined ? undefined : flags.hostMemory * 2 ** 30,
    hostBytesPerS: flags.hostBandwidth === undefined ? undefined : flags.hostBandwidth * 1e9,
    hosts: flags.hosts,
    networkBytesPerS: flags.network === undefined ? undefined : (flags.network * 1e9) / 8,
    load:
      flags.rps === undefined ? { concurrency: flags.concurrency ?? DEFAULT_CONCURRENCY } : { requestsPerS: flags.rps },
    slo: { ttftMs: slo?.ttftMs, tpotMs: slo?.tpotMs },
    isSimpleTask: flags.task === "simple",
    smallestRecovery: flags.minQuality,
    price: priceOf(machine, flags),
  });
  const fit = await chosenFit(flags, request);
  return { request: { ...request, efficiencies: fit?.efficiencies }, fit };
}
