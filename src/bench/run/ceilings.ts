/** The machine's ceilings, read while its servers idle: what the roofline is drawn from. */
import { MillraceError } from "../../core/errors.js";
import { loadProbes, type Mix } from "../kernels/probes.js";
import { ATTENTION_MIX } from "../report/roofline.js";
import type { Ceilings, ModelWork } from "../results/schema.js";

const READINGS_AT_A_TIME = 5;

type ReadCeilings = () => Ceilings["readings"];

/** @returns nothing to read where there is no model to hold against it, or where the probes were not built: a bench is none the worse for it */
export function ceilingReader(works: readonly ModelWork[], numThreads: number): ReadCeilings | undefined {
  if (works.length === 0) return undefined;
  const mixes = new Set([
    ATTENTION_MIX,
    ...works.flatMap(({ layerMacs, outputMacs }) => [...Object.keys(layerMacs), ...Object.keys(outputMacs)]),
  ]) as ReadonlySet<Mix>;
  try {
    const probes = loadProbes(numThreads);
    return () =>
      Array.from({ length: READINGS_AT_A_TIME }, () => ({
        bytesPerS: probes.readBytesPerS(),
        macsPerS: Object.fromEntries([...mixes].map((mix) => [mix, probes.macsPerS(mix)])),
      }));
  } catch (cause) {
    if (cause instanceof MillraceError && cause.code === "kernels_missing") return undefined;
    throw cause;
  }
}
