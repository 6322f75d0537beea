/**
 * The small operations of a step, and the sampler for whole vocabularies. Operands are in a cache, as during a step.
 */

import { activationRowBytes } from "../../backend/cpu/library/packing.js";
import type { BufferHandle } from "../../backend/handles.js";
import { type ActivationFormat, SAMPLE_PARAM, SAMPLE_PARAMS } from "../../backend/ops.js";
import { BLOCK_LAYOUT, type WeightType } from "../../formats/dequantize.js";
import type { KernelWorkload, Recording } from "./workload.js";

const WIDTH = 2048;
const EPS = 1e-5;
/** Many runs per program, so that the program's start costs little in comparison. */
const NUM_RUNS = 16;

const UNBOUND = { macs: 0, mix: "float", bytes: 0 } as const;

function repeated(op: string, shape: string, prepare: (recording: Recording) => () => void): KernelWorkload {
  return {
    op,
    shape,
    ...UNBOUND,
    record: (recording) => {
      const run = prepare(recording);
      for (let index = 0; index < NUM_RUNS; index++) run();
      return NUM_RUNS;
    },
  };
}

export function elementwiseWorkloads(numRows: number): KernelWorkload[] {
  const rows = `${numRows} × `;
  return [
    repeated("rmsNorm", `${rows}${WIDTH}`, (recording) => {
      const [x, out] = [recording.filled(4 * numRows * WIDTH), recording.filled(4 * numRows * WIDTH)];
      const gain = recording.filled(4 * WIDTH);
      return () => recording.program.record("rmsNorm", { out, x, gain, numRows, width: WIDTH, eps: EPS });
    }),
    repeated("add", `${rows}${WIDTH}`, (recording) => {
      const [x, out] = [recording.filled(4 * numRows * WIDTH), recording.filled(4 * numRows * WIDTH)];
      return () => recording.program.record("add", { out, x, numRows, width: WIDTH });
    }),
  ];
}

export function quantizeWorkload(format: Exclude<ActivationFormat, "f32">, numRows: number): KernelWorkload {
  return repeated(`quantize ${format}`, `${numRows} × ${WIDTH}`, (recording) => {
    const x = recording.filled(4 * numRows * WIDTH);
    const out = recording.device.allocate(numRows * activationRowBytes(format, WIDTH));
    return () => recording.program.record("quantize", { out, x, numRows, width: WIDTH, format });
  });
}

const EMBED_ROWS = 32_000;

export function embedWorkload(type: WeightType, numRows: number): KernelWorkload {
  const { numValues, byteLength } = BLOCK_LAYOUT[type];
  return repeated(`embed ${type}`, `${numRows} × ${WIDTH}`, (recording) => {
    const source = recording.filled((EMBED_ROWS * WIDTH * byteLength) / numValues);
    const weight = recording.device.createWeight(source, 0, type, EMBED_ROWS, WIDTH);
    const ids = recording.i32(Array.from({ length: numRows }, (_, i) => (i * 7919) % EMBED_ROWS));
    const out = recording.filled(4 * numRows * WIDTH);
    return () => recording.program.record("embed", { out, weight, ids, numRows, scale: 1 });
  });
}

/** Sampling parameters of a row. */
const SAMPLING = {
  greedy: { numTop: -1 },
  "greedy with log-probability": { numTop: 0 },
  "temperature, top-k, top-p": { numTop: -1, temperature: 0.8, topK: 40, topP: 0.95 },
  "temperature, top-p, log-probabilities": { numTop: 5, temperature: 0.8, topP: 0.95 },
} as const satisfies Record<string, Partial<Record<keyof typeof SAMPLE_PARAM, number>>>;

export function sampleWorkloads(vocabSize: number, numRows: number): KernelWorkload[] {
  return Object.entries(SAMPLING).map(([name, settings]) =>
    repeated(`sample ${vocabSize}`, `${numRows} × ${name}`, (recording) => {
      const params = new Float64Array(numRows * SAMPLE_PARAMS);
      for (let row = 0; row < numRows; row++) {
        const asked = {
          topP: 1,
          typicalP: 1,
          repetitionPenalty: 1,
          maskStart: -1,
          seedLow: row,
          position: row,
          ...settings,
        };
        for (const [param, value] of Object.entries(asked)) {
          params[row * SAMPLE_PARAMS + SAMPLE_PARAM[param as keyof typeof SAMPLE_PARAM]] = value;
        }
      }
      const logits = normalLogits(recording, numRows * vocabSize);
      const four = (): BufferHandle => recording.filled(4 * numRows);
      const topStride = 5;
      const buffers = {
        params: recording.f64(params),
        history: four(),
        biasIds: four(),
        biasValues: four(),
        bannedIds: four(),
        masks: four(),
        outIds: four(),
        outLogprobs: four(),
        outRanks: four(),
        topIds: recording.filled(4 * numRows * topStride),
        topLogprobs: recording.filled(4 * numRows * topStride),
        topStride,
      };
      return () => recording.program.record("sample", { ...buffers, logits, numRows, vocabSize });
    }),
  );
}

/** Logits spread like a model's (normal, deviation 3): the sampler's cost depends on how many pass a filter. */
function normalLogits(recording: Recording, count: number): BufferHandle {
  const buffer = recording.filled(4 * count);
  const logits = new Float32Array(recording.device.view(buffer));
  let state = 1;
  const uniform = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 1) / 2 ** 32;
  };
  for (let i = 0; i < count; i++)
    logits[i] = 3 * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  return buffer;
}
