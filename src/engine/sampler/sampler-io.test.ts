/** The rows and lists that the sampler's kernel gets, as backend/ops.ts describes them. */
import { beforeEach, describe, expect, test } from "vitest";
import { request } from "../../../test/helpers/engine-requests.js";
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import { SAMPLE_PARAM, SAMPLE_PARAMS } from "../../backend/ops.js";
import type { SamplingParams } from "../api/request.js";
import { GREEDY_TEMPERATURE, MAX_LOGPROBS } from "../api/request.js";
import { Sequence } from "../step/sequence.js";
import { SamplerIo } from "./sampler-io.js";

type Values = Float64Array | Float32Array | Int32Array;
const ARRAYS = { f64: Float64Array, f32: Float32Array, i32: Int32Array };

/** Memory of a device that computes nothing. */
class Memory {
  readonly buffers = new Map<BufferHandle, Values>();

  readonly backend = {
    input: (type: keyof typeof ARRAYS, length: number) => this.#create(type, length),
    output: (type: keyof typeof ARRAYS, length: number) => this.#create(type, length),
    release: (buffer: BufferHandle) => this.buffers.delete(buffer),
  } as unknown as Backend;

  numCreated = 0;

  #create(type: keyof typeof ARRAYS, length: number) {
    const buffer = ++this.numCreated as unknown as BufferHandle;
    const values = new ARRAYS[type](length);
    this.buffers.set(buffer, values);
    return { buffer, values };
  }
}

const VOCAB_SIZE = 64;
const PROMPT = [1, 2, 3];
/** What a row says where nothing is asked for. */
const NEUTRAL = { topP: 1, typicalP: 1, repetitionPenalty: 1, numTop: -1, maskStart: -1 };

let memory: Memory;
let io: SamplerIo;
beforeEach(() => {
  memory = new Memory();
  io = new SamplerIo(memory.backend, { maxLogitRows: 16, maxNumSeqs: 4, vocabSize: VOCAB_SIZE });
});

const valuesOf = (name: Exclude<keyof SamplerIo["buffers"], "topStride">): Values =>
  memory.buffers.get(io.buffers[name])!;

/** The row's fields that are not 0. */
function rowOf(index: number): Record<string, number> {
  const row = valuesOf("params").subarray(index * SAMPLE_PARAMS, (index + 1) * SAMPLE_PARAMS);
  const fields = Object.entries(SAMPLE_PARAM).map(([name, place]) => [name, row[place]!] as const);
  return Object.fromEntries(fields.filter(([, value]) => value !== 0));
}

const list = (name: "history" | "biasIds" | "biasValues" | "bannedIds" | "masks", start: number, length: number) =>
  Array.from(valuesOf(name).subarray(start, start + length));

function sequenceOf(sampling: Partial<SamplingParams> = {}, output: readonly number[] = []): Sequence {
  const sequence = new Sequence(1, request(PROMPT, sampling), 1, 0);
  for (const token of output) sequence.append(token);
  return sequence;
}

describe("a row that chooses a token", () => {
  test("has the request's own numbers, and the place it chooses for", () => {
    const sequence = sequenceOf({
      temperature: 0.75,
      topK: 7,
      topP: 0.5,
      minP: 0.25,
      presencePenalty: 1.5,
      frequencyPenalty: 2.5,
      repetitionPenalty: 3.5,
      seed: 0x1234_5678_9abc_def0n,
      numLogprobs: 4,
    });
    io.addSampleRow(sequence, 5);
    expect(rowOf(0)).toEqual({
      ...NEUTRAL,
      temperature: 0.75,
      topK: 7,
      topP: 0.5,
      minP: 0.25,
      presencePenalty: 1.5,
      frequencyPenalty: 2.5,
      repetitionPenalty: 3.5,
      seedHigh: 0x1234_5678,
      seedLow: 0x9abc_def0,
      position: 5,
      numTop: 4,
      numPromptTokens: 3,
      numOutputTokens: 2,
    });
  });

  test("has the numbers of llama.cpp's samplers", () => {
    const shape = { xtc: { probability: 0.4, threshold: 0.2 }, dynamicTemperature: { range: 0.3, exponent: 2 } };
    io.addSampleRow(sequenceOf({ topNSigma: 1.5, typicalP: 0.9, ...shape }), 3);
    expect(rowOf(0)).toEqual({
      ...NEUTRAL,
      position: 3,
      topNSigma: 1.5,
      typicalP: 0.9,
      xtcProbability: 0.4,
      xtcThreshold: 0.2,
      dynatempRange: 0.3,
      dynatempExponent: 2,
    });
  });

  test("asks for nothing that the request does not", () => {
    io.addSampleRow(sequenceOf(), 3);
    expect([rowOf(0), io.numRows]).toEqual([{ ...NEUTRAL, position: 3 }, 1]);
  });

  test("is greedy below a temperature that is as good as none, and not at it", () => {
    const temperatures = [GREEDY_TEMPERATURE * 0.9, GREEDY_TEMPERATURE];
    for (const temperature of temperatures) io.addSampleRow(sequenceOf({ temperature }), 3);
    expect([rowOf(0).temperature, rowOf(1).temperature]).toEqual([undefined, GREEDY_TEMPERATURE]);
  });

  test("for a guess reports the chosen token alone, whatever the request asks for", () => {
    const sampling = { temperature: 1, numLogprobs: 5, minTokens: 9, stopTokenIds: [8] };
    io.addGuessRow(sequenceOf(sampling), 3);
    // 0 top tokens beside it, and what may not come may not be guessed.
    const { numTop: _, ...neutral } = NEUTRAL;
    expect(rowOf(0)).toEqual({ ...neutral, temperature: 1, position: 3, numBanned: 1 });
  });
});

test("a row that scores a token says which, and nothing else", () => {
  io.addScoreRow(42, 2);
  expect(rowOf(0)).toEqual({ ...NEUTRAL, mode: 1, target: 42, numTop: 2 });
});

describe("the history", () => {
  test.each<[string, Partial<SamplingParams>, boolean]>([
    ["a presence penalty", { presencePenalty: 0.5 }, true],
    ["a negative presence penalty", { presencePenalty: -1 }, true],
    ["a frequency penalty", { frequencyPenalty: 0.5 }, true],
    ["a repetition penalty", { repetitionPenalty: 2 }, true],
    ["a small repetition penalty", { repetitionPenalty: 0.5 }, true],
    ["no penalty", {}, false],
    ["a presence penalty of one", { presencePenalty: 1 }, true],
    ["a frequency penalty of minus one", { frequencyPenalty: -1 }, true],
    ["a frequency penalty of one", { frequencyPenalty: 1 }, true],
  ])("with %s: %o", (_, sampling, isThere) => {
    io.addSampleRow(sequenceOf(sampling, [4, 5]), 5);
    expect(list("history", 0, 6)).toEqual(isThere ? [1, 2, 3, 4, 5, 0] : [0, 0, 0, 0, 0, 0]);
    expect(rowOf(0).numPromptTokens).toBe(isThere ? 3 : undefined);
  });

  test("is there once for all rows of a sequence, drafted tokens included, and one sequence's follows another's", () => {
    const [first, second] = [sequenceOf({ presencePenalty: 1 }), sequenceOf({ presencePenalty: 1 }, [9])];
    first.setDraft([7, 8]);
    for (const position of [3, 4, 5]) io.addSampleRow(first, position);
    io.addSampleRow(second, 4);
    expect(list("history", 0, 10)).toEqual([1, 2, 3, 7, 8, 1, 2, 3, 9, 0]);
    const rows = [0, 1, 2, 3].map(rowOf);
    expect(rows.map(({ historyStart = 0 }) => historyStart)).toEqual([0, 0, 0, 5]);
    expect(rows.map(({ numOutputTokens = 0 }) => numOutputTokens)).toEqual([0, 1, 2, 1]);
  });

  test.each([
    [9, 0, 3, 2],
    [5, 0, 3, 2],
    [4, 1, 2, 2],
    [2, 3, 0, 2],
    [1, 4, 0, 1],
    [0, 5, 0, 0],
  ])("is read in a window of %i tokens: from %i on, %i of the prompt and %i of the output", (...numbers) => {
    const [penaltyWindow, start, numPrompt, numOutput] = numbers;
    const first = sequenceOf({ presencePenalty: 1 });
    io.addSampleRow(first, 3);
    io.addSampleRow(sequenceOf({ presencePenalty: 1, penaltyWindow }, [4, 5]), 5);
    const { historyStart, numPromptTokens = 0, numOutputTokens = 0 } = rowOf(1);
    expect([historyStart! - 3, numPromptTokens, numOutputTokens]).toEqual([start, numPrompt, numOutput]);
    expect(list("history", 3, 5)).toEqual([1, 2, 3, 4, 5]);
  });

  test("keeps what it holds when its memory grows, and gives the old memory back", () => {
    const long = Array.from({ length: 3000 }, (_, i) => i + 1);
    const before = io.buffers.history;
    for (let n = 0; n < 3; n++) {
      io.addSampleRow(new Sequence(n, request(long, { presencePenalty: 1 }), 1, 0), 3000);
    }
    expect(list("history", 0, 9000)).toEqual([...long, ...long, ...long]);
    expect([memory.buffers.has(before), memory.buffers.has(io.buffers.history)]).toEqual([false, true]);
    // The second makes twice the memory, the third as much as is needed.
    expect(valuesOf("history").length).toBeGreaterThanOrEqual(9000);
  });

  test("that fills its memory exactly needs no more", () => {
    const before = io.buffers.history;
    const { length } = valuesOf("history");
    io.addSampleRow(new Sequence(1, request(new Int32Array(length), { presencePenalty: 1 }), 1, 0), length);
    expect(io.buffers.history).toBe(before);
    io.addSampleRow(sequenceOf({ presencePenalty: 1 }), 3);
    expect(valuesOf("history").length).toBeGreaterThanOrEqual(2 * length);
  });
});

test("biases of a sequence follow those of the one before, once for all of its rows", () => {
  const first = sequenceOf({
    logitBias: [
      [5, 0.5],
      [6, -2],
    ],
  });
  const second = sequenceOf({ logitBias: [[7, 3]] });
  io.addSampleRow(first, 3);
  io.addSampleRow(first, 4);
  io.addSampleRow(second, 3);
  expect(list("biasIds", 0, 4)).toEqual([5, 6, 7, 0]);
  expect(list("biasValues", 0, 4)).toEqual([0.5, -2, 3, 0]);
  const biases = [0, 1, 2].map(rowOf).map(({ biasStart = 0, numBiases }) => [biasStart, numBiases]);
  expect(biases).toEqual([
    [0, 2],
    [0, 2],
    [2, 1],
  ]);
});

describe("DRY's penalties", () => {
  const dry = { multiplier: 1, base: 2, allowedLength: 1, breakers: [] };
  const late = (index: number) => {
    const { lateBiasStart = 0, numLateBiases = 0 } = rowOf(index);
    const [ids, values] = [
      list("biasIds", lateBiasStart, numLateBiases),
      list("biasValues", lateBiasStart, numLateBiases),
    ];
    return Object.fromEntries(ids.map((id, i) => [id, values[i]]));
  };

  test("are each row's own, of the tokens before its position, drafted ones included", () => {
    const sequence = sequenceOf({ dry, logitBias: [[9, 3]] }, [1]);
    sequence.setDraft([2, 3]);
    for (const position of [4, 5, 6]) io.addSampleRow(sequence, position);
    io.addSampleRow(sequenceOf({ logitBias: [[7, 2]] }), 3);
    // 1 2 3 1, and then 2 and 3.
    expect([0, 1, 2].map(late)).toEqual([{ 2: -1 }, { 3: -2 }, { 1: -4 }]);
    expect([0, 1, 2].map((row) => [rowOf(row).biasStart ?? 0, rowOf(row).numBiases])).toEqual(Array(3).fill([0, 1]));
    expect([list("biasIds", rowOf(3).biasStart!, 1), rowOf(3).numLateBiases]).toEqual([[7], undefined]);
  });

  test("may be more than there was memory for at first", () => {
    io = new SamplerIo(memory.backend, { maxLogitRows: 4, maxNumSeqs: 1, vocabSize: 1000 });
    const tokens = [...Array.from({ length: 999 }, (_, i) => [0, i + 1]).flat(), 0];
    const before = io.buffers;
    for (let n = 0; n < 4; n++) io.addSampleRow(new Sequence(n, request(tokens, { dry }), 1, 0), tokens.length);
    expect([0, 1, 2, 3].map((row) => Object.keys(late(row)).length)).toEqual([999, 999, 999, 999]);
    expect([memory.buffers.has(before.biasIds), memory.buffers.has(before.biasValues)]).toEqual([false, false]);
    // The program of the steps before is recorded anew only where the memory is another.
    expect(io.buffers).not.toBe(before);
    expect(io.buffers).toBe(io.buffers);
  });
});

describe("stop tokens", () => {
  const STOPS = { stopTokenIds: [10, 11], minTokens: 2 };
  const bans = (index: number) => [rowOf(index).banStart ?? 0, rowOf(index).numBanned ?? 0];

  test("may not come before the least number of tokens has, row by row", () => {
    const sequence = sequenceOf(STOPS);
    for (const position of [3, 4, 5, 6]) io.addSampleRow(sequence, position);
    io.addSampleRow(sequenceOf({ stopTokenIds: [12], minTokens: 1 }), 3);
    expect([0, 1, 2, 3, 4].map(bans)).toEqual([
      [0, 2],
      [0, 2],
      [0, 0],
      [0, 0],
      [2, 1],
    ]);
    expect(list("bannedIds", 0, 4)).toEqual([10, 11, 12, 0]);
  });

  test("of a sequence that has its least number take no place in the list", () => {
    io.addSampleRow(sequenceOf(STOPS, [4, 5]), 5);
    io.addSampleRow(sequenceOf({ stopTokenIds: [12], minTokens: 1 }), 3);
    expect([bans(0), bans(1)]).toEqual([
      [0, 0],
      [0, 1],
    ]);
  });

  test("may come where a grammar has come to its end, or the request's own lists leave nothing else", () => {
    const words = Int32Array.of(1 << 10, 0);
    io.addSampleRow(sequenceOf(STOPS), 3, { words, isOnlyStop: true });
    io.addSampleRow(sequenceOf(STOPS), 3, { words, isOnlyStop: false });
    io.addSampleRow(sequenceOf({ ...STOPS, allowedTokenIds: [11] }), 3);
    io.addSampleRow(sequenceOf({ ...STOPS, allowedTokenIds: [11, 12] }), 3);
    io.addSampleRow(sequenceOf({ ...STOPS, allowedTokenIds: [11] }), 3, { words: words.fill(-1), isOnlyStop: false });
    expect([0, 1, 2, 3, 4].map((row) => bans(row)[1])).toEqual([0, 2, 0, 2, 0]);
  });
});

describe("masks", () => {
  const mask = (word: number) => ({ words: Int32Array.of(word, -word), isOnlyStop: false });

  test("follow one another, each named by its row", () => {
    const sequence = sequenceOf();
    for (let n = 0; n < 9; n++) io.addSampleRow(sequence, 3 + n, mask(n + 1));
    io.addSampleRow(sequence, 12);
    expect([...Array(10).keys()].map((row) => rowOf(row).maskStart ?? 0)).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 16, -1]);
    expect(list("masks", 0, 18)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9].flatMap((word) => [word, -word]));
  });

  test("move to larger memory a few times only, and the old memory is given back", () => {
    const numBefore = memory.numCreated;
    const sequence = sequenceOf();
    for (let n = 0; n < 16; n++) io.addSampleRow(sequence, 3 + n, mask(1));
    expect(memory.numCreated - numBefore).toBe(5);
    expect(memory.buffers.size).toBe(numBefore);
    expect(valuesOf("masks")).toHaveLength(32);
  });
});

test("a new step begins with empty lists, and rows without what was in them", () => {
  const rich = { ...NEUTRAL, presencePenalty: 1, logitBias: [[5, 1] as const], stopTokenIds: [9], minTokens: 5 };
  const fill = (sequence: Sequence) => {
    io.addSampleRow(sequence, 3, { words: Int32Array.of(7, 7), isOnlyStop: false });
    io.addSampleRow(sequence, 4);
  };
  const sequence = sequenceOf({ ...rich, temperature: 1 });
  fill(sequence);
  const first = [rowOf(0), rowOf(1)];
  io.clear();
  expect(io.numRows).toBe(0);
  // The same sequence has one more token now, which its history must have.
  sequence.append(6);
  fill(sequence);
  expect([rowOf(0), rowOf(1)]).toEqual(first);
  expect(list("history", 0, 5)).toEqual([1, 2, 3, 6, 0]);
  expect([list("biasIds", 0, 2), list("bannedIds", 0, 2)]).toEqual([
    [5, 0],
    [9, 0],
  ]);
  io.clear();
  io.addScoreRow(3, 0);
  const { numTop: _, ...neutral } = NEUTRAL;
  expect(rowOf(0)).toEqual({ ...neutral, mode: 1, target: 3 });
});

describe("what the kernel reports", () => {
  test("is a token, or none where the row left none to choose", () => {
    valuesOf("outIds").set([0, 5, -1]);
    expect([io.tokenId(0), io.tokenId(1), io.tokenId(2)]).toEqual([0, 5, undefined]);
  });

  test("has a probability, and a log-probability with rank and top tokens", () => {
    valuesOf("outLogprobs").set([0, -1.5]);
    valuesOf("outRanks").set([1, 3]);
    valuesOf("topIds").set([30, 31, 32], MAX_LOGPROBS);
    valuesOf("topLogprobs").set([-0.5, -1, -2], MAX_LOGPROBS);
    expect([io.probability(0), io.probability(1)]).toEqual([1, Math.exp(-1.5)]);
    expect(io.logprob(1, 33, 2)).toEqual({
      tokenId: 33,
      logprob: -1.5,
      rank: 3,
      top: [
        { tokenId: 30, logprob: -0.5 },
        { tokenId: 31, logprob: -1 },
      ],
    });
    expect(io.buffers.topStride).toBe(MAX_LOGPROBS);
  });
});
