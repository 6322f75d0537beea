/** Fills the sampler's inputs for a step's logit rows and reads its results. backend/ops.ts defines the numbers. */
import type { Backend } from "../../backend/backend.js";
import { SAMPLE_PARAM, SAMPLE_PARAMS } from "../../backend/ops.js";
import type { SampleBuffers } from "../../backend/program.js";
import type { TokenLogprob } from "../api/output.js";
import type { SamplingParams } from "../api/request.js";
import { GREEDY_TEMPERATURE, MAX_LOGIT_BIASES, MAX_LOGPROBS, MAX_STOP_TOKENS } from "../api/request.js";
import type { PositionMask } from "../constraint/mask-memory.js";
import type { Sequence } from "../step/sequence.js";
import { leavesOnly, TokenBars } from "./token-bars.js";

const MODE_SAMPLE = 0;
const MODE_SCORE = 1;
const NO_LOGPROBS = -1;
const NO_MASK = -1;
const INITIAL_HISTORY_LENGTH = 4096;

interface SharedLists {
  readonly sequence: Sequence | undefined;
  readonly historyStart: number;
  readonly biasStart: number;
  readonly banStart: number;
}
const NOTHING_SHARED: SharedLists = { sequence: undefined, historyStart: 0, biasStart: 0, banStart: 0 };

export class SamplerIo {
  numRows = 0;
  #buffers: SampleBuffers;
  readonly #params: Float64Array;
  #history: Int32Array;
  readonly #biasIds: Int32Array;
  readonly #biasValues: Float32Array;
  readonly #bannedIds: Int32Array;
  readonly #outIds: Int32Array;
  readonly #outLogprobs: Float32Array;
  readonly #outRanks: Int32Array;
  readonly #topIds: Int32Array;
  readonly #topLogprobs: Float32Array;
  #historyEnd = 0;
  #biasEnd = 0;
  #bannedEnd = 0;
  #masks: Int32Array;
  #masksEnd = 0;
  readonly #bars: TokenBars;
  /** Places of the current sequence's history, biases and bans, which its rows share. */
  #shared: SharedLists = NOTHING_SHARED;

  constructor(
    private readonly backend: Backend,
    capacity: { readonly maxLogitRows: number; readonly maxNumSeqs: number; readonly vocabSize: number },
  ) {
    this.#bars = new TokenBars(capacity.vocabSize);
    const { maxLogitRows, maxNumSeqs } = capacity;
    const ints = (length: number) => backend.input("i32", length);
    const params = backend.input("f64", maxLogitRows * SAMPLE_PARAMS);
    const history = ints(INITIAL_HISTORY_LENGTH);
    const biasIds = ints(maxNumSeqs * MAX_LOGIT_BIASES);
    const biasValues = backend.input("f32", maxNumSeqs * MAX_LOGIT_BIASES);
    const bannedIds = ints(maxNumSeqs * MAX_STOP_TOKENS);
    const masks = ints(0);
    const outIds = backend.output("i32", maxLogitRows);
    const outLogprobs = backend.output("f32", maxLogitRows);
    const outRanks = backend.output("i32", maxLogitRows);
    const topIds = backend.output("i32", maxLogitRows * MAX_LOGPROBS);
    const topLogprobs = backend.output("f32", maxLogitRows * MAX_LOGPROBS);
    this.#params = params.values;
    this.#history = history.values;
    this.#biasIds = biasIds.values;
    this.#biasValues = biasValues.values;
    this.#bannedIds = bannedIds.values;
    this.#masks = masks.values;
    this.#outIds = outIds.values;
    this.#outLogprobs = outLogprobs.values;
    this.#outRanks = outRanks.values;
    this.#topIds = topIds.values;
    this.#topLogprobs = topLogprobs.values;
    this.#buffers = {
      params: params.buffer,
      history: history.buffer,
      biasIds: biasIds.buffer,
      biasValues: biasValues.buffer,
      bannedIds: bannedIds.buffer,
      masks: masks.buffer,
      outIds: outIds.buffer,
      outLogprobs: outLogprobs.buffer,
      outRanks: outRanks.buffer,
      topIds: topIds.buffer,
      topLogprobs: topLogprobs.buffer,
      topStride: MAX_LOGPROBS,
    };
  }

  /** Valid until the next row is added. */
  get buffers(): SampleBuffers {
    return this.#buffers;
  }

  clear(): void {
    this.numRows = 0;
    this.#historyEnd = 0;
    this.#biasEnd = 0;
    this.#bannedEnd = 0;
    this.#masksEnd = 0;
    this.#shared = NOTHING_SHARED;
  }

  /**
   * The next logit row chooses the token at `position` of the sequence, given that all drafted tokens before it are
   * right. Add the rows of a sequence one after another.
   */
  addSampleRow(sequence: Sequence, position: number, mask?: PositionMask): void {
    const words = this.#bars.maskAt(sequence, position, mask?.words);
    const { numLogprobs, stopTokenIds } = sequence.sampling;
    const isOnlyStop = mask?.isOnlyStop === true || (words !== mask?.words && leavesOnly(words ?? [], stopTokenIds));
    const row = this.#addChoice(sequence, position, numLogprobs, isOnlyStop);
    if (words !== undefined) row[SAMPLE_PARAM.maskStart] = this.#addMask(words);
  }

  #addChoice(sequence: Sequence, position: number, numTop: number | undefined, isOnlyStop: boolean): Float64Array {
    const { sampling, numPromptTokens } = sequence;
    const shared = this.#sharedOf(sequence);
    const row = this.#row(MODE_SAMPLE, numTop);
    row[SAMPLE_PARAM.temperature] = sampling.temperature < GREEDY_TEMPERATURE ? 0 : sampling.temperature;
    row[SAMPLE_PARAM.topK] = sampling.topK;
    row[SAMPLE_PARAM.topP] = sampling.topP;
    row[SAMPLE_PARAM.minP] = sampling.minP;
    row[SAMPLE_PARAM.presencePenalty] = sampling.presencePenalty;
    row[SAMPLE_PARAM.frequencyPenalty] = sampling.frequencyPenalty;
    row[SAMPLE_PARAM.repetitionPenalty] = sampling.repetitionPenalty;
    row[SAMPLE_PARAM.seedHigh] = Number(sampling.seed >> 32n);
    row[SAMPLE_PARAM.seedLow] = Number(sampling.seed & 0xffffffffn);
    row[SAMPLE_PARAM.position] = position;
    if (hasPenalties(sampling)) {
      row[SAMPLE_PARAM.historyStart] = shared.historyStart;
      row[SAMPLE_PARAM.numPromptTokens] = numPromptTokens;
      row[SAMPLE_PARAM.numOutputTokens] = position - numPromptTokens;
    }
    row[SAMPLE_PARAM.biasStart] = shared.biasStart;
    row[SAMPLE_PARAM.numBiases] = sampling.logitBias.length;
    // At the end of a grammar only stop tokens are left, so they are not barred.
    if (position - numPromptTokens < sampling.minTokens && !isOnlyStop) {
      row[SAMPLE_PARAM.banStart] = shared.banStart;
      row[SAMPLE_PARAM.numBanned] = sampling.stopTokenIds.length;
    }
    return row;
  }

  /**
   * As addSampleRow, for a drafter: reports the probabilities of the chosen token and of the `numTop` likeliest ones
   * only.
   */
  addGuessRow(sequence: Sequence, position: number, numTop = 0): void {
    this.#addChoice(sequence, position, numTop, false);
  }

  /** The next logit row reports the log-probability of a prompt token. */
  addScoreRow(target: number, numTop: number): void {
    const row = this.#row(MODE_SCORE, numTop);
    row[SAMPLE_PARAM.target] = target;
  }

  /** undefined: every logit of the row is NaN or −∞, so no token can be chosen. */
  tokenId(row: number): number | undefined {
    const id = this.#outIds[row]!;
    return id < 0 ? undefined : id;
  }

  /** Probability of the chosen token before temperature and filters: 0 to 1. */
  probability(row: number): number {
    return Math.exp(this.#outLogprobs[row]!);
  }

  logprob(row: number, tokenId: number, numTop: number): TokenLogprob {
    const start = row * MAX_LOGPROBS;
    const top = Array.from({ length: numTop }, (_, i) => ({
      tokenId: this.#topIds[start + i]!,
      logprob: this.#topLogprobs[start + i]!,
    }));
    return { tokenId, logprob: this.#outLogprobs[row]!, rank: this.#outRanks[row]!, top };
  }

  #row(mode: number, numTop: number | undefined): Float64Array {
    const start = this.numRows++ * SAMPLE_PARAMS;
    const row = this.#params.subarray(start, start + SAMPLE_PARAMS).fill(0);
    row[SAMPLE_PARAM.mode] = mode;
    row[SAMPLE_PARAM.topP] = 1;
    row[SAMPLE_PARAM.repetitionPenalty] = 1;
    row[SAMPLE_PARAM.numTop] = numTop ?? NO_LOGPROBS;
    row[SAMPLE_PARAM.maskStart] = NO_MASK;
    return row;
  }

  #sharedOf(sequence: Sequence): SharedLists {
    if (this.#shared.sequence === sequence) return this.#shared;
    const { sampling } = sequence;
    this.#shared = {
      sequence,
      historyStart: this.#historyEnd,
      biasStart: this.#biasEnd,
      banStart: this.#bannedEnd,
    };
    if (hasPenalties(sampling)) this.#addHistory(sequence);
    this.#addBiases(sampling);
    if (sequence.numOutputTokens < sampling.minTokens) this.#addBans(sampling);
    return this.#shared;
  }

  #addHistory(sequence: Sequence): void {
    const numTokens = sequence.numTokens + sequence.numDraftTokens;
    this.#reserveHistory(this.#historyEnd + numTokens);
    this.#history.set(sequence.tokens.subarray(0, numTokens), this.#historyEnd);
    this.#historyEnd += numTokens;
  }

  /** Only rows with penalties need their history, so the buffer grows on demand. */
  #reserveHistory(length: number): void {
    if (length <= this.#history.length) return;
    const { buffer, values } = this.backend.input("i32", Math.max(length, 2 * this.#history.length));
    values.set(this.#history.subarray(0, this.#historyEnd));
    this.backend.release(this.#buffers.history);
    this.#history = values;
    this.#buffers = { ...this.#buffers, history: buffer };
  }

  #addMask(words: Int32Array): number {
    const start = this.#masksEnd;
    this.#masksEnd += words.length;
    if (this.#masksEnd > this.#masks.length) {
      const { buffer, values } = this.backend.input("i32", Math.max(this.#masksEnd, 2 * this.#masks.length));
      values.set(this.#masks.subarray(0, start));
      this.backend.release(this.#buffers.masks);
      this.#masks = values;
      this.#buffers = { ...this.#buffers, masks: buffer };
    }
    this.#masks.set(words, start);
    return start;
  }

  #addBiases(sampling: SamplingParams): void {
    for (const [tokenId, bias] of sampling.logitBias) {
      this.#biasIds[this.#biasEnd] = tokenId;
      this.#biasValues[this.#biasEnd++] = bias;
    }
  }

  #addBans(sampling: SamplingParams): void {
    this.#bannedIds.set(sampling.stopTokenIds, this.#bannedEnd);
    this.#bannedEnd += sampling.stopTokenIds.length;
  }
}

function hasPenalties(sampling: SamplingParams): boolean {
  return sampling.presencePenalty !== 0 || sampling.frequencyPenalty !== 0 || sampling.repetitionPenalty !== 1;
}
