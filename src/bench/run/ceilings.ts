/** The machine's ceilings for the roofline, read while the servers are idle. */
import { type Mix, probesIfBuilt } from "../kernels/probes.js";
import { ATTENTION_MIX } from "../report/roofline.js";
import type { Ceilings, ModelWork } from "../results/schema.js";

const READINGS_AT_A_TIME = 5;

type ReadCeilings = () => Ceilings["readings"];

/** @returns undefined without a model to compare with, or if the probes were not built */
export function ceilingReader(works: readonly ModelWork[], numThreads: number): ReadCeilings | undefined {
  if (works.length === 0) return undefined;
  const mixes = new Set([
    ATTENTION_MIX,
    ...works.flatMap(({ layerMacs, outputMacs }) => [...Object.keys(layerMacs), ...Object.keys(outputMacs)]),
  ]) as ReadonlySet<Mix>;
  const probes = probesIfBuilt(numThreads);
  if (probes === undefined) return undefined;
  return () =>
    Array.from({ length: READINGS_AT_A_TIME }, () => ({
      bytesPerS: probes.readBytesPerS(),
      macsPerS: Object.fromEntries([...mixes].map((mix) => [mix, probes.macsPerS(mix)])),
    }));
}
