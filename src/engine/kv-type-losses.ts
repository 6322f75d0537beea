/** Measures how each type of keys and values changes a model's predictions, so that a start can choose the type. */
import { setImmediate } from "node:timers/promises";
import { KV_TYPES, type KvType } from "../backend/ops.js";
import { MillraceError } from "../core/errors.js";
import type { ServableModel } from "../model/description/servable.js";
import { kvBytesPerToken } from "../model/description/sizes.js";
import { openModel } from "../model/open-model.js";
import type { EngineOptions } from "./api/options.js";
import { resolveMaxModelLen } from "./check-options.js";
import { argMax, klOf, logSoftmax } from "./log-softmax.js";
import { openAlone } from "./lone-model.js";
import { textLogits } from "./rehearsal.js";

export interface KvTypeLoss {
  readonly kvType: KvType;
  readonly bytesPerToken: number;
  /** Mean KL divergence of the next token's distribution from that with f16, in nats. */
  readonly meanKl: number;
  /** Share of the positions whose likeliest token is another one than with f16. */
  readonly changedShare: number;
}

/** All other types are compared with it. */
const REFERENCE = "f16" satisfies KvType;
/** f32 is left out: it needs twice the memory of f16, and no user would see the difference. */
export const KV_CANDIDATES = KV_TYPES.filter((kvType) => kvType !== "f32");

/** Most tokens of one window, fewest tokens that are worth measuring, and tokens of all windows. */
const WINDOW = 2048;
const LEAST_WINDOW = 256;
const MEASURED_TOKENS = 2 * WINDOW;

/** The event loop gets a turn each time so many rows have been read. */
const YIELD_ROWS = 64;

/** Memory for the reference's distributions: it bounds the positions that are compared. */
const MAX_REFERENCE_BYTES = 512 * 2 ** 20;

/**
 * Measures every type that is smaller than f16, and f16 itself, one after the other; the smallest comes first. The text
 * is computed in windows of the context's length, 2,048 tokens at most, and the second half of each is compared. Throws
 * invalid_option where nothing can be measured.
 * @param ids tokens of a text; 4,096 of them are read
 * @param onType called before each type is measured
 */
export async function kvTypeLosses(
  options: EngineOptions,
  ids: readonly number[],
  onType: (kvType: KvType) => void,
): Promise<readonly KvTypeLoss[]> {
  const windows = windowsOf(openModel(options.modelPath).config, options.maxModelLen, ids);
  const expected: Float32Array[] = [];
  const reference = await readDistributions(options, REFERENCE, windows, onType, (logs) => {
    expected.push(Float32Array.from(logs));
  });
  const losses: KvTypeLoss[] = [{ ...reference, meanKl: 0, changedShare: 0 }];
  for (const kvType of KV_CANDIDATES) {
    if (kvType === REFERENCE) continue;
    let sumKl = 0;
    let numChanged = 0;
    let position = 0;
    const tested = await readDistributions(options, kvType, windows, onType, (logs) => {
      const p = expected[position++]!;
      sumKl += klOf(p, logs);
      if (argMax(p) !== argMax(logs)) numChanged++;
    });
    losses.push({ ...tested, meanKl: sumKl / expected.length, changedShare: numChanged / expected.length });
  }
  return losses.sort((a, b) => a.bytesPerToken - b.bytesPerToken);
}

function windowsOf(
  { isCausal, contextLength }: ServableModel,
  maxModelLen: number | undefined,
  ids: readonly number[],
): readonly (readonly number[])[] {
  if (!isCausal) throw cannotMeasure("a model that generates text", "an encoder, which keeps no keys and values");
  const window = Math.min(WINDOW, resolveMaxModelLen(maxModelLen, contextLength), ids.length);
  if (window < LEAST_WINDOW) throw cannotMeasure(`a context of at least ${LEAST_WINDOW} tokens`, String(window));
  const numWindows = Math.floor(Math.min(ids.length, MEASURED_TOKENS) / window);
  return Array.from({ length: numWindows }, (_, index) => ids.slice(index * window, (index + 1) * window));
}

const cannotMeasure = (expected: string, got: string): MillraceError =>
  new MillraceError("invalid_option", `expected ${expected} for --kv-cache-dtype measured, got ${got}`, {
    hint: "name a type, or leave the flag out",
  });

/**
 * Opens the model anew for each type: one type's memory is freed before the next, and packed weights come from the
 * cache.
 */
async function readDistributions(
  options: EngineOptions,
  kvCacheDtype: KvType,
  windows: readonly (readonly number[])[],
  onType: (kvType: KvType) => void,
  read: (logProbabilities: Float64Array) => void,
): Promise<Pick<KvTypeLoss, "kvType" | "bytesPerToken">> {
  onType(kvCacheDtype);
  const maxModelLen = Math.max(...windows.map(({ length }) => length));
  const plain = { kvEviction: undefined, kvLayout: "paged", prefixCacheDisk: undefined } as const;
  const { model, parts, backend } = await openAlone({ ...options, ...plain, kvCacheDtype, maxModelLen });
  try {
    const most = Math.floor(MAX_REFERENCE_BYTES / (4 * model.config.vocabSize * windows.length));
    for (const ids of windows) {
      const first = ids.length - Math.min(Math.ceil(ids.length / 2), Math.max(1, most));
      let position = 0;
      const readCompared = async (logits: Float32Array): Promise<void> => {
        // Steps do not yield by themselves, and a lock that is not touched for a minute counts as abandoned.
        if (position % YIELD_ROWS === 0) await setImmediate();
        if (position++ < first) return;
        const logs = logSoftmax(logits);
        // One NaN among the logits makes every log-probability NaN.
        if (Number.isNaN(logs[0])) throw notANumber(kvCacheDtype);
        read(logs);
      };
      await textLogits(parts, ids, readCompared, 0);
    }
    return { kvType: kvCacheDtype, bytesPerToken: kvBytesPerToken(model.config, kvCacheDtype) };
  } finally {
    parts.constraints.close();
    backend.destroy();
  }
}

const notANumber = (kvType: KvType): MillraceError =>
  new MillraceError("not_a_number", `expected numbers as predictions with keys and values of ${kvType}, got others`, {
    hint: "name a type, such as --kv-cache-dtype f16; if that fails too, the model's file is damaged",
  });
