/** Predicts our own CPU measurements from the probes of the same hour, without calibration on the model itself. */
import type { Efficiencies } from "./data/constants.js";
import type { Cpu } from "./data/device.js";
import { MEASURED, type MeasuredModel, R1_1B, ZEN5_PROBES } from "./data/measured.js";
import { KV_TYPES } from "./data/quantizations.js";
import type { PlannedModel } from "./planned-model.js";
import { storedQuantization } from "./rules.js";
import { DECODE, defaultEfficiencies, type PlannedInstance, stepTime } from "./step-time.js";

interface CheckedCell {
  readonly model: string;
  readonly cell: string;
  readonly measured: number;
  readonly predicted: number;
  readonly error: number;
}

export const ZEN5: Cpu = {
  id: "zen5-2",
  label: "2 cores of Zen 5",
  memoryBytes: 25e9,
  bytesPerS: ZEN5_PROBES.readBytesPerS,
  flops: {
    cpu4: 2 * ZEN5_PROBES.narrowMacsPerS,
    cpu8: 2 * ZEN5_PROBES.wideMacsPerS,
    cpuFloat: 2 * ZEN5_PROBES.floatMacsPerS,
  },
  numCores: ZEN5_PROBES.numCores,
  isa: "avx512vnni",
  source: "probes of docs/background/benchmarks/kernels.md, 2026-11-22",
};

function instanceOf(
  { label, weightBytes, embeddingBytes }: MeasuredModel,
  efficiencies: Efficiencies | undefined,
): PlannedInstance {
  const model: PlannedModel = {
    ...R1_1B,
    name: `${R1_1B.name}-${label}`,
    source: "docs/background/benchmarks/kernels.md",
    location: "",
    checkpoints: {},
    stored: { label, weightBytes, embeddingBytes },
  };
  const machine = { kind: "cpu", device: ZEN5, count: 1 } as const;
  const quantization = storedQuantization(label, machine);
  return {
    model,
    machine,
    quantization,
    kv: KV_TYPES["16"],
    tensorParallel: 1,
    efficiencies: efficiencies ?? defaultEfficiencies(machine, quantization),
  };
}

/** @param efficiencies found by calibration on other data */
export function checkMeasured(efficiencies?: Efficiencies): CheckedCell[] {
  return MEASURED.flatMap((measured) => {
    const instance = instanceOf(measured, efficiencies);
    const decode = (numDecoding: number, context: number): number =>
      numDecoding / stepTime(instance, { ...DECODE, numDecoding, context }).totalSeconds;
    const prompt = { ...DECODE, numDecoding: 0, context: 0, numPromptTokens: 512 };
    const cells: readonly (readonly [string, number, number])[] = [
      ["prefill 512", measured.prefill512, 512 / stepTime(instance, prompt).totalSeconds],
      ...([1, 2, 4, 8, 16] as const).map((n) => [`decode, ${n}`, measured.decode[n], decode(n, 28)] as const),
      ["decode at 4096", measured.decodeAt4096, decode(1, 4084)],
    ];
    return cells.map(([cell, value, predicted]) => ({
      model: measured.label,
      cell,
      measured: value,
      predicted,
      error: predicted / value - 1,
    }));
  });
}
