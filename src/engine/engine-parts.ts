/**
 * Builds the parts of an engine to fit the model and the free memory: weights, KV memory, batch, sampler, grammar
 * threads.
 */

import type { Backend, LoadReport } from "../backend/backend.js";
import { formatBytes } from "../core/quantities.js";
import { tasksOf, windowOf } from "../model/description/servable.js";
import { isRecurrent, stateBytes, tokenKvBytes } from "../model/description/sizes.js";
import {
  draftStatesWithin,
  memoryForStates,
  seatsWithStates,
  snapshotsWithin,
} from "../model/description/state-memory.js";
import type { OpenModel } from "../model/open-model.js";
import type { EngineOptions } from "./api/options.js";
import type { EngineInfo } from "./api/stats.js";
import { loadWeights } from "./blocks/load-weights.js";
import { Transformer } from "./blocks/transformer.js";
import type { ModelWeights } from "./blocks/weights.js";
import { checkOptions, resolveMaxModelLen } from "./check-options.js";
import { Constraints } from "./constraint/constraints.js";
import { GrammarLanes } from "./constraint/grammar-lanes.js";
import { AttentionCounts } from "./memory/attention-counts.js";
import { Eviction } from "./memory/eviction.js";
import { Evictor } from "./memory/evictor.js";
import { encoderKvBudget, groupEntryBytes, kvGroups, mainGroup, planKvBudget, poolSizes } from "./memory/groups.js";
import { KvCaches } from "./memory/kv-caches.js";
import { KvManager } from "./memory/kv-manager.js";
import { RecurrentStates } from "./memory/recurrent-states.js";
import { type StateCounts, StateSlots } from "./memory/state-slots.js";
import { STATE_WINDOW } from "./memory/windows.js";
import { PooledHead } from "./pooled-head.js";
import { SamplerIo } from "./sampler/sampler-io.js";
import { isEagle3Folder } from "./speculative/eagle3-folder.js";
import { loadMtp, type MtpWeights } from "./speculative/mtp-weights.js";
import { Forks } from "./step/forks.js";
import { StepBatch } from "./step/step-batch.js";

export interface EngineParts {
  readonly info: EngineInfo;
  readonly numGroups: number;
  /** Logit rows of one step beyond one for each sequence: scored prompt positions and drafted tokens. */
  readonly maxExtraLogitRows: number;
  readonly batch: StepBatch;
  readonly sampler: SamplerIo;
  readonly weights: ModelWeights;
  /** The model's own layer for multi-token prediction; undefined: it has none, or does not draft. */
  readonly mtp: MtpWeights | undefined;
  readonly caches: KvCaches;
  readonly transformer: Transformer;
  readonly kv: KvManager;
  /** Absent: the model has no recurrent layers. */
  readonly states: StateSlots | undefined;
  /** Absent: no entry is evicted. */
  readonly evictor: Evictor | undefined;
  /** For alternatives to drafted tokens. */
  readonly forks: Forks;
  readonly numForks: number;
  /** The layers behind the pooling, where the model has some. */
  readonly head: PooledHead | undefined;
  readonly constraints: Constraints;
}

/** Bytes for the logits of scored prompt positions and drafted tokens; bounds their number in one step. */
const EXTRA_LOGITS_BYTES = 64 * 1024 * 1024;

/** Most alternatives to drafted tokens in a step: each has a block of its own. */
const MAX_FORKS = 32;

/** Time limit for compiling a grammar, and for computing the masks of one sequence for one step. */
const GRAMMAR_TIMEOUT_MS = 10_000;

/**
 * Rejects with the coded errors of loading weights and checking options.
 * @param options as `optionsFor` made them
 */
export async function buildParts(
  model: OpenModel,
  options: EngineOptions,
  backend: Backend,
  report: LoadReport,
): Promise<EngineParts> {
  const { config } = model;
  const { blockSize, maxNumBatchedTokens, kvCacheDtype: kvType } = options;
  const maxModelLen = resolveMaxModelLen(options.maxModelLen, config.contextLength);
  const head = config.head && PooledHead.load(config.head, model.tensors());
  const weights = await loadWeights(model, options.modelPath, backend, report);
  const mtp = await loadMtp(model, options, backend, report);
  const freeForStates = memoryForStates(backend.freeBytes(), options.kvCacheMemoryBytes);
  const maxNumSeqs = seatsWithStates(config, options.maxNumSeqs, freeForStates);
  const isPaged = options.kvLayout === "paged";
  const mayCache = options.enablePrefixCaching && isPaged;
  const numSnapshots = mayCache ? snapshotsWithin(config, freeForStates) : 0;
  // Without the state at its end, a recurrent model can take up no prefix.
  const isCaching = mayCache && (numSnapshots > 0 || !isRecurrent(config));
  const { method, numSpeculativeTokens, alternatives, draftModelPath } = options.speculative;
  const numWanted = method === "none" ? 0 : maxNumSeqs * numSpeculativeTokens;
  const numDrafts = draftStatesWithin(config, numWanted, freeForStates);
  const numStates = maxNumSeqs + numDrafts + numSnapshots;
  const recurrentBytes = numStates * stateBytes(config);
  const stateCounts = { numSequences: maxNumSeqs, numDrafts, numSnapshots };
  const states = isRecurrent(config) ? new StateSlots(stateCounts, blockSize) : undefined;
  if (states !== undefined) noteRecurrent(report, options.maxNumSeqs, stateCounts, stateBytes(config));
  const eviction = options.kvEviction && new Eviction(options.kvEviction, blockSize);
  const groups = kvGroups(config, isPaged ? maxModelLen : 0, eviction !== undefined);
  const windows = groups.map(({ window }) => window);
  const pools = groups.map(({ pool }) => pool);
  const vectorBytes = (width: number) => backend.kvEntryBytes(kvType, width);
  const demand = { maxNumSeqs, maxModelLen, maxNumBatchedTokens };
  const { numBlocks, kvBytes } = config.isCausal
    ? planKvBudget(
        groups,
        groupEntryBytes(config, groups, vectorBytes, mtp?.config.layers),
        blockSize,
        demand,
        backend.freeBytes() - recurrentBytes,
        options.kvCacheMemoryBytes,
      )
    : encoderKvBudget(tokenKvBytes(config, vectorBytes) / config.layers.length, blockSize, demand);
  checkOptions(options, backend, maxModelLen, numBlocks[mainGroup(windows)]!);
  const maxExtraLogitRows = Math.min(512, Math.max(16, Math.floor(EXTRA_LOGITS_BYTES / (4 * config.vocabSize))));
  const maxLogitRows = maxNumSeqs + maxExtraLogitRows;
  const tableStride = Math.ceil(maxModelLen / blockSize);
  // Only layers with keys of their own rank tokens, so only they propose alternatives.
  const hasForks = mtp !== undefined || (draftModelPath !== undefined && isEagle3Folder(draftModelPath));
  const numForks = hasForks ? Math.min(MAX_FORKS, maxNumSeqs * alternatives) : 0;
  const capacity = { maxRows: maxNumBatchedTokens, maxLogitRows, maxSeats: maxNumSeqs + numForks, tableStride };
  const window = Math.max(...config.layers.map(windowOf));
  const encoderWindow = config.isCausal || window === 0 ? {} : { encoderWindow: window };
  const batch = new StepBatch({ ...capacity, ...encoderWindow, numGroups: groups.length }, backend);
  const masksPerSlot = 1 + numSpeculativeTokens;
  const maskShape = { numSlots: maxNumSeqs, masksPerSlot, vocabSize: config.vocabSize };
  const kv = new KvManager({
    windows,
    numBlocks,
    pools,
    eviction,
    blockSize,
    maxStepTokens: maxNumBatchedTokens,
    isPrefixCachingEnabled: isCaching,
    states,
    reservedTokens: isPaged ? 0 : maxModelLen,
  });
  const layout = { kvType, blockSize, numBlocks: poolSizes(numBlocks, pools), groups, numSpare: numForks };
  const caches = new KvCaches(config, layout, backend);
  const stateMemory = states && new RecurrentStates(config, numStates, backend);
  const observing = eviction?.isObserving === true ? eviction : undefined;
  const attentionCounts =
    observing &&
    new AttentionCounts(config, groups, backend, maxNumSeqs, tableStride * blockSize, observing.numObserved);
  const { weightType, numParameters, weightBytes } = model.summary;
  return {
    numGroups: groups.length,
    maxExtraLogitRows,
    batch,
    sampler: new SamplerIo(backend, { maxLogitRows, maxNumSeqs, vocabSize: config.vocabSize }),
    weights,
    mtp,
    caches,
    transformer: new Transformer({
      config,
      weights,
      backend,
      caches,
      states: stateMemory,
      batch,
      attentionCounts,
      maxModelLen,
    }),
    kv,
    states,
    evictor: eviction && new Evictor(eviction, kv, groups, attentionCounts),
    forks: new Forks(caches, batch, { numBlocks, blockSize, firstSeat: maxNumSeqs }),
    numForks,
    head,
    constraints: new Constraints(new GrammarLanes(options.modelPath, maskShape, GRAMMAR_TIMEOUT_MS)),
    info: {
      architecture: config.architecture,
      weightType,
      numParameters,
      weightBytes,
      vocabSize: config.vocabSize,
      maxModelLen,
      maxNumSeqs,
      tasks: tasksOf(config),
      isCausal: config.isCausal,
      numTokenTypes: config.numTokenTypes,
      embeddingWidth: head?.width ?? config.width,
      pooling: options.pooling === "auto" ? (config.pooling ?? "last") : options.pooling,
      blockSize,
      kvWindows: [
        ...windows.filter((_, group) => pools[group] !== pools[group - 1]),
        ...(states === undefined ? [] : [STATE_WINDOW]),
      ],
      numKvBlocks: kv.numBlocks,
      kvBytes,
      recurrentBytes,
      kvCacheDtype: kvType,
      kvEviction: options.kvEviction,
      ...backend.description,
    },
  };
}

/** Notes the memory and the limits of a model with recurrent layers. */
function noteRecurrent(report: LoadReport, asked: number, counts: StateCounts, bytesEach: number): void {
  const { numSequences, numDrafts, numSnapshots } = counts;
  const numStates = numSequences + numDrafts + numSnapshots;
  report.note(
    `recurrent layers: ${numStates} states of ${formatBytes(bytesEach)}, for ${numSequences} sequences, ${numDrafts} ` +
      `drafted tokens of a step and ${numSnapshots} ends of cached prefixes`,
  );
  if (numSequences === asked) return;
  report.note(`${numSequences} sequences run at once, not ${asked}: their states have no more memory`);
}
