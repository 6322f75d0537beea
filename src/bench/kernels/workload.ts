/** A measured operation: its operands, its work, and its timing. */

import type { KernelDevice } from "../../backend/cpu/library/kernels.js";
import type { BufferHandle } from "../../backend/handles.js";
import { Program } from "../../backend/program.js";
import { median } from "../../core/statistics.js";
import type { Mix } from "./probes.js";

export interface KernelWorkload {
  readonly op: string;
  readonly shape: string;
  /** Multiply-adds of one run; 0 if they are not the bound. */
  readonly macs: number;
  /** The instruction mix; its ceiling bounds the multiply-adds. */
  readonly mix: Mix;
  /** Bytes that one run reads from memory; 0 if they come from a cache. */
  readonly bytes: number;
  /**
   * Puts operands into the device's memory and records some runs, each with its own operands if the workload reads from
   * memory.
   */
  record(recording: Recording): number;
}

/** A device's memory and the program under construction. */
export class Recording {
  readonly program = new Program();

  constructor(readonly device: KernelDevice) {}

  /**
   * Memory full of small normal numbers in every type: no zeros, denormals, infinities or NaN, which change an
   * operation's speed.
   */
  filled(numBytes: number): BufferHandle {
    const buffer = this.device.allocate(numBytes);
    new Uint8Array(this.device.view(buffer)).fill(ORDINARY_BYTE);
    return buffer;
  }

  i32(values: readonly number[]): BufferHandle {
    const buffer = this.device.allocate(4 * values.length);
    new Int32Array(this.device.view(buffer)).set(values);
    return buffer;
  }

  f64(values: Float64Array): BufferHandle {
    const buffer = this.device.allocate(values.byteLength);
    new Float64Array(this.device.view(buffer)).set(values);
    return buffer;
  }
}

/** Reads as 0.065 in f16, as 2.4e-12 in bf16 and f32, as 2^−83 in MXFP4's scale, as 0.094 in NVFP4's. */
const ORDINARY_BYTE = 0x2c;

const MIN_SAMPLES = 3;

/**
 * Median time of one run, in seconds; programs run until `minSeconds` have passed. The device must have no other
 * program.
 */
export function secondsOf(workload: KernelWorkload, device: KernelDevice, minSeconds: number): number {
  const recording = new Recording(device);
  const numRuns = workload.record(recording);
  const { program } = recording;
  device.submit(program.words, program.numWords);
  const samples: number[] = [];
  for (let total = 0; total < minSeconds || samples.length < MIN_SAMPLES; ) {
    const startMs = performance.now();
    device.submit(program.words, program.numWords);
    const seconds = (performance.now() - startMs) / 1000;
    samples.push(seconds / numRuns);
    total += seconds;
  }
  return median(samples);
}
