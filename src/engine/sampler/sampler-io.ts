/** Fills the sampler's inputs for a step's logit rows and reads its results. backend/ops.ts defines the numbers. */
import type { Backend } from "../../backend/backend.js";
import { SAMPLE_PARAM, SAMPLE_PARAMS } from "../../backend/ops.js";
import type { SampleBuffers } from "../../backend/program.js";
import type { TokenLogprob } from "../api/output.js";
import type { DryPenalty, SamplingParams } from "../api/request.js";
import { GREEDY_TEMPERATURE, MAX_LOGIT_BIASES, MAX_LOGPROBS, MAX_STOP_TOKENS } from "../api/request.js";
import type { PositionMask } from "../constraint/mask-memory.js";
import type { Sequence } from "../step/sequence.js";
import { DryPenalties } from "./dry.js";
import { GrowingList } from "./growing-list.js";
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
  readonly #params: Float64Array;
  readonly #history: GrowingList<"i32">;
  readonly #biasIds: GrowingList<"i32">;
  readonly #biasValues: GrowingList<"f32">;
  readonly #bannedIds: GrowingList<"i32">;
  readonly #masks: GrowingList<"i32">;
  readonly #outIds: Int32Array;
  readonly #outLogprobs: Float32Array;
  readonly #outRanks: Int32Array;
  readonly #topIds: Int32Array;
  readonly #topLogprobs: Float32Array;
  #buffers: SampleBuffers;
  readonly #bars: TokenBars;
  readonly #dry: DryPenalties;
  /** Places of the current sequence's history, biases and bans, which its rows share. */
  #shared: SharedLists = NOTHING_SHARED;

  constructor(
    backend: Backend,
    capacity: { readonly maxLogitRows: number; readonly maxNumSeqs: number; readonly vocabSize: number },
  ) {
    this.#bars = new TokenBars(capacity.vocabSize);
    this.#dry = new DryPenalties(capacity.vocabSize);
    const { maxLogitRows, maxNumSeqs } = capacity;
    const params = backend.input("f64", maxLogitRows * SAMPLE_PARAMS);
    this.#history = new GrowingList(backend, "i32", INITIAL_HISTORY_LENGTH);
    this.#biasIds = new GrowingList(backend, "i32", maxNumSeqs * MAX_LOGIT_BIASES);
    this.#biasValues = new GrowingList(backend, "f32", maxNumSeqs * MAX_LOGIT_BIASES);
    this.#bannedIds = new GrowingList(backend, "i32", maxNumSeqs * MAX_STOP_TOKENS);
    this.#masks = new GrowingList(backend, "i32", 0);
    const outIds = backend.output("i32", maxLogitRows);
    const outLogprobs = backend.output("f32", maxLogitRows);
    const outRanks = backend.output("i32", maxLogitRows);
    const topIds = backend.output("i32", maxLogitRows * MAX_LOGPROBS);
    const topLogprobs = backend.output("f32", maxLogitRows * MAX_LOGPROBS);
    this.#params = params.values;
    this.#outIds = outIds.values;
    this.#outLogprobs = outLogprobs.values;
    this.#outRanks = outRanks.values;
    this.#topIds = topIds.values;
    this.#topLogprobs = topLogprobs.values;
    this.#buffers = {
      ...this.#listBuffers(),
      params: params.buffer,
      outIds: outIds.buffer,
      outLogprobs: outLogprobs.buffer,
      outRanks: outRanks.buffer,
      topIds: topIds.buffer,
      topLogprobs: topLogprobs.buffer,
      topStride: MAX_LOGPROBS,
    };
  }

  /** Valid until the next row is added; another object only where a list has grown. */
  get buffers(): SampleBuffers {
    const { history, biasIds, biasValues, bannedIds, masks } = this.#buffers;
    const hasGrown =
      history !== this.#history.buffer ||
      biasIds !== this.#biasIds.buffer ||
      biasValues !== this.#biasValues.buffer ||
      bannedIds !== this.#bannedIds.buffer ||
      masks !== this.#masks.buffer;
    if (hasGrown) this.#buffers = { ...this.#buffers, ...this.#listBuffers() };
    return this.#buffers;
  }

  #listBuffers() {
    return {
      history: this.#history.buffer,
      biasIds: this.#biasIds.buffer,
      biasValues: this.#biasValues.buffer,
      bannedIds: this.#bannedIds.buffer,
      masks: this.#masks.buffer,
    };
  }

  clear(): void {
    this.numRows = 0;
    for (const list of [this.#history, this.#biasIds, this.#biasValues, this.#bannedIds, this.#masks]) list.length = 0;
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
    if (words === undefined) return;
    row[SAMPLE_PARAM.maskStart] = this.#masks.length;
    this.#masks.append(words);
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
      const start = Math.max(position - (sampling.penaltyWindow ?? position), 0);
      row[SAMPLE_PARAM.historyStart] = shared.historyStart + start;
      row[SAMPLE_PARAM.numPromptTokens] = Math.max(numPromptTokens - start, 0);
      row[SAMPLE_PARAM.numOutputTokens] = position - Math.max(numPromptTokens, start);
    }
    this.#addShape(row, sampling);
    if (sampling.dry !== undefined) this.#addDry(row, sequence, position, sampling.dry);
    row[SAMPLE_PARAM.biasStart] = shared.biasStart;
    row[SAMPLE_PARAM.numBiases] = sampling.logitBias.length;
    // At the end of a grammar only stop tokens are left, so they are not barred.
    if (position - numPromptTokens < sampling.minTokens && !isOnlyStop) {
      row[SAMPLE_PARAM.banStart] = shared.banStart;
      row[SAMPLE_PARAM.numBanned] = sampling.stopTokenIds.length;
    }
    return row;
  }

  #addShape(row: Float64Array, { topNSigma = 0, typicalP = 1, xtc, dynamicTemperature }: SamplingParams): void {
    row[SAMPLE_PARAM.topNSigma] = topNSigma;
    row[SAMPLE_PARAM.typicalP] = typicalP;
    if (xtc !== undefined) {
      row[SAMPLE_PARAM.xtcProbability] = xtc.probability;
      row[SAMPLE_PARAM.xtcThreshold] = xtc.threshold;
    }
    if (dynamicTemperature !== undefined) {
      row[SAMPLE_PARAM.dynatempRange] = dynamicTemperature.range;
      row[SAMPLE_PARAM.dynatempExponent] = dynamicTemperature.exponent;
    }
  }

  #addDry(row: Float64Array, { tokens }: Sequence, position: number, dry: DryPenalty): void {
    const start = this.#biasIds.length;
    row[SAMPLE_PARAM.lateBiasStart] = start;
    this.#dry.at(tokens, position, dry, (id, penalty) => {
      this.#biasIds.push(id);
      this.#biasValues.push(-penalty);
    });
    row[SAMPLE_PARAM.numLateBiases] = this.#biasIds.length - start;
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
    row[SAMPLE_PARAM.typicalP] = 1;
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
      historyStart: this.#history.length,
      biasStart: this.#biasIds.length,
      banStart: this.#bannedIds.length,
    };
    if (hasPenalties(sampling)) {
      this.#history.append(sequence.tokens.subarray(0, sequence.numTokens + sequence.numDraftTokens));
    }
    for (const [tokenId, bias] of sampling.logitBias) {
      this.#biasIds.push(tokenId);
      this.#biasValues.push(bias);
    }
    if (sequence.numOutputTokens < sampling.minTokens) this.#bannedIds.append(sampling.stopTokenIds);
    return this.#shared;
  }
}

function hasPenalties(sampling: SamplingParams): boolean {
  return sampling.presencePenalty !== 0 || sampling.frequencyPenalty !== 0 || sampling.repetitionPenalty !== 1;
}
