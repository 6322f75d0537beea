/** The machine's ceilings, measured by an addon that only benchmarks load (native/cpu/bench). */

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { findAddon } from "../../backend/cpu/library/find.js";
import type { Isa } from "../../backend/cpu/library/kernels.js";
import { loadKernels } from "../../backend/cpu/library/load.js";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { MachineSpeeds } from "../../core/machine-speeds.js";
import { packageRoot } from "../../core/package-root.js";

/** Instruction mixes of multiply-adds, in the addon's numbering (native/cpu/bench/probes.h describes them). */
const MIXES = ["float", "narrow8", "narrow4", "scaled4", "wide", "bfloat"] as const;
export type Mix = (typeof MIXES)[number];

/** The addon's exports. */
interface ProbeAddon {
  /** Seconds of the fastest of numPasses passes over numBytes of memory. */
  readSeconds(isa: Isa, numThreads: number, numBytes: number, numPasses: number): number;
  /** Seconds in which the threads together do numThreads × numCells cells, rounded down to units of 24,000. */
  multiplySeconds(isa: Isa, mix: number, numThreads: number, numCells: number): number;
  readonly cellMacs: number;
}

/** Far more than any cache holds. */
const READ_BYTES = 256 * 2 ** 20;
const READ_PASSES = 3;
/** About ten milliseconds of work. */
const MULTIPLY_CELLS = 6_000_000;

export class Probes {
  constructor(
    private readonly addon: ProbeAddon,
    readonly isa: Isa,
    private readonly numThreads: number,
  ) {}

  /** Bytes per second over all threads, each reading its own part of a large buffer. */
  readBytesPerS(): number {
    return READ_BYTES / this.addon.readSeconds(this.isa, this.numThreads, READ_BYTES, READ_PASSES);
  }

  /** Multiply-adds per second over all threads, with operands in registers. */
  macsPerS(mix: Mix): number {
    const seconds = this.addon.multiplySeconds(this.isa, MIXES.indexOf(mix), this.numThreads, MULTIPLY_CELLS);
    return (this.numThreads * MULTIPLY_CELLS * this.addon.cellMacs) / seconds;
  }
}

/** Takes a few hundred milliseconds. */
export function readSpeeds(probes: Probes): MachineSpeeds {
  return {
    bytesPerS: probes.readBytesPerS(),
    narrow: probes.macsPerS("narrow8"),
    wide: probes.macsPerS("wide"),
    float: probes.macsPerS("float"),
  };
}

/**
 * Probes for the instruction set that the kernels use on this machine. Throws kernels_missing if the addon was not
 * built.
 */
export function loadProbes(numThreads: number): Probes {
  const device = loadKernels().createDevice({ numThreads: 1 });
  device.destroy();
  return new Probes(createRequire(import.meta.url)(probesFile()) as ProbeAddon, device.isa, numThreads);
}

/**
 * Like `loadProbes`, but undefined if the addon was not built. Published packages lack it, and their benchmarks run
 * without ceilings.
 */
export function probesIfBuilt(numThreads: number): Probes | undefined {
  try {
    return loadProbes(numThreads);
  } catch (cause) {
    if (cause instanceof MillraceError && cause.code === "kernels_missing") return undefined;
    throw cause;
  }
}

const READINGS_AT_A_TIME = 3;

/** @returns several readings per call; none if the probes were not built */
export function speedReader(numThreads: number): () => MachineSpeeds[] {
  const probes = probesIfBuilt(numThreads);
  return () => (probes === undefined ? [] : Array.from({ length: READINGS_AT_A_TIME }, () => readSpeeds(probes)));
}

function probesFile(): string {
  try {
    return findAddon("probes.node");
  } catch (cause) {
    const { message } = toMillraceError(cause);
    const script = join(packageRoot(), "scripts/build-native.js");
    const hint = existsSync(script)
      ? `run node ${script} --probes, which builds them`
      : "install the package of kernels for this platform, which has them; see docs/guides/install.md";
    throw new MillraceError("kernels_missing", message, { hint, cause });
  }
}
