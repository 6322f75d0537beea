/**
 * `millrace bench kernels` without its command line: each workload's speed, and the ceilings measured before and after
 * it.
 */

import type { Isa } from "../../backend/cpu/library/kernels.js";
import { loadKernels } from "../../backend/cpu/library/load.js";
import { productType } from "../../backend/cpu/product-type.js";
import { KV_TYPES } from "../../backend/ops.js";
import type { WeightType } from "../../formats/dequantize.js";
import { decodeAttention, prefillAttention, writeKv } from "./attention-workloads.js";
import { expertWorkloads } from "./expert-workloads.js";
import { linearWorkload } from "./linear-workloads.js";
import type { Mix, Probes } from "./probes.js";
import { elementwiseWorkloads, embedWorkload, quantizeWorkload, sampleWorkloads } from "./small-workloads.js";
import { type KernelWorkload, secondsOf } from "./workload.js";

const OP_GROUPS = ["linear", "experts", "attention", "sample", "small"] as const;
export type OpGroup = (typeof OP_GROUPS)[number];

export interface KernelBenchSpec {
  readonly groups: readonly OpGroup[];
  readonly types: readonly WeightType[];
  /** Token rows of `linear` and of experts. */
  readonly numRows: readonly number[];
  readonly numThreads: number;
  /** Decides how products treat activations. */
  readonly isa: Isa;
  /** Shortest time for which each operation is repeated. */
  readonly minSeconds: number;
}

export interface KernelBenchResult {
  readonly op: string;
  readonly shape: string;
  readonly mix: Mix;
  /** Median time of one run. */
  readonly seconds: number;
  /** Speed of memory reads and of multiply-adds; absent if the other is the bound. */
  readonly gbPerS?: number;
  readonly gmacPerS?: number;
  /** The probes' speeds: the better of the readings before and after. */
  readonly ceilingGbPerS?: number;
  readonly ceilingGmacPerS?: number;
  /** The least time that the ceilings of memory and arithmetic allow ÷ the measured time. */
  readonly rooflineShare?: number;
}

const FORMATS = ["blocks16", "blocks32", "blocks256", "row16", "centred32", "bf16"] as const;
const VOCABULARIES = [32_000, 151_936];

export function workloadsOf(spec: KernelBenchSpec): KernelWorkload[] {
  const byGroup: Readonly<Record<OpGroup, () => KernelWorkload[]>> = {
    linear: () =>
      spec.types.flatMap((type) =>
        spec.numRows.map((numRows) => linearWorkload(productType(type, "auto", spec.isa), numRows)),
      ),
    experts: () =>
      spec.types.flatMap((type) =>
        spec.numRows.flatMap((numRows) => expertWorkloads(productType(type, "auto", spec.isa), numRows)),
      ),
    attention: () => [
      ...KV_TYPES.map((kvType) => decodeAttention(kvType, 1, 4096)),
      decodeAttention("f16", 8, 1024),
      decodeAttention("f16", 8, 2048, true),
      ...KV_TYPES.map((kvType) => prefillAttention(kvType, 512)),
      ...KV_TYPES.map((kvType) => writeKv(kvType, 512)),
    ],
    sample: () => VOCABULARIES.flatMap((size) => [...sampleWorkloads(size, 1), ...sampleWorkloads(size, 16)]),
    small: () => [
      ...elementwiseWorkloads(1),
      ...elementwiseWorkloads(512),
      ...FORMATS.map((format) => quantizeWorkload(format, 512)),
      ...spec.types.map((t) => embedWorkload(t, 512)),
    ],
  };
  return spec.groups.flatMap((group) => byGroup[group]());
}

/** @param onResult called after every workload */
export function benchKernels(
  spec: KernelBenchSpec,
  probes: Probes,
  onResult: (result: KernelBenchResult) => void,
): KernelBenchResult[] {
  return workloadsOf(spec).map((workload) => {
    const result = measure(workload, spec, probes);
    onResult(result);
    return result;
  });
}

function measure(workload: KernelWorkload, spec: KernelBenchSpec, probes: Probes): KernelBenchResult {
  const ceilings = () => ({
    bytesPerS: workload.bytes > 0 ? probes.readBytesPerS() : Number.POSITIVE_INFINITY,
    macsPerS: workload.macs > 0 ? probes.macsPerS(workload.mix) : Number.POSITIVE_INFINITY,
  });
  const before = ceilings();
  const device = loadKernels().createDevice({ numThreads: spec.numThreads });
  let seconds: number;
  try {
    seconds = secondsOf(workload, device, spec.minSeconds);
  } finally {
    device.destroy();
  }
  const after = ceilings();
  return resultOf(workload, seconds, {
    bytesPerS: Math.max(before.bytesPerS, after.bytesPerS),
    macsPerS: Math.max(before.macsPerS, after.macsPerS),
  });
}

export function resultOf(
  { op, shape, mix, macs, bytes }: KernelWorkload,
  seconds: number,
  ceiling: { readonly bytesPerS: number; readonly macsPerS: number },
): KernelBenchResult {
  const best = Math.max(bytes / ceiling.bytesPerS, macs / ceiling.macsPerS);
  return {
    op,
    shape,
    mix,
    seconds,
    ...(bytes === 0 ? {} : { gbPerS: bytes / seconds / 1e9, ceilingGbPerS: ceiling.bytesPerS / 1e9 }),
    ...(macs === 0 ? {} : { gmacPerS: macs / seconds / 1e9, ceilingGmacPerS: ceiling.macsPerS / 1e9 }),
    ...(best === 0 ? {} : { rooflineShare: best / seconds }),
  };
}
