/**
 * Binds a model's own layer for multi-token prediction: a layer like the model's others with attention, and the norms
 * and the matrix before it. Embedding, final norm and output matrix are the model's where the file has no others.
 */
import type { Backend, LoadReport } from "../../backend/backend.js";
import type { BufferHandle, WeightHandle } from "../../backend/handles.js";
import type { MatrixRows, MatrixSpec, TensorSource } from "../../backend/tensor-source.js";
import { MillraceError } from "../../core/errors.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { OpenModel } from "../../model/open-model.js";
import type { EngineOptions } from "../api/options.js";
import { bindAttentionLayer } from "../blocks/bind-model.js";
import { type Binder, bindTensors, type Linear } from "../blocks/binder.js";
import { modelName } from "../blocks/load-weights.js";
import type { LayerWeights } from "../blocks/weights.js";
import { columnPart } from "./column-part.js";
import { refused } from "./refused-heads.js";

export interface MtpWeights {
  /** The model with this layer alone. */
  readonly config: ServableModel;
  readonly layer: LayerWeights;
  /** [width, width] each: the parts of one matrix that read the token's embedding and the state. */
  readonly joinEmbedding: Linear;
  readonly joinState: Linear;
  /** f32 [width] each */
  readonly embeddingNorm: BufferHandle;
  readonly stateNorm: BufferHandle;
  /** undefined: the model's own */
  readonly outputNorm: BufferHandle | undefined;
  readonly output: Linear | undefined;
  readonly embedding: WeightHandle | undefined;
}

/**
 * Loads the layer where the options want it: by name, or with auto where nothing else is to draft.
 * @returns undefined where they do not, where the model has none, and, after a note, where auto finds a damaged one.
 * Rejects where the layer is wanted by name with invalid_option, gguf_tensor or model_tensor
 */
export async function loadMtp(
  model: OpenModel,
  { speculative, kvEviction, modelPath }: Pick<EngineOptions, "speculative" | "kvEviction" | "modelPath">,
  backend: Backend,
  report: LoadReport,
): Promise<MtpWeights | undefined> {
  const { method, draftModelPath } = speculative;
  // Evicted entries would be the layer's too.
  const isTried = method === "auto" && draftModelPath === undefined && kvEviction === undefined;
  if (method !== "mtp" && !isTried) return undefined;
  const { draftLayers = [] } = model.config;
  if (draftLayers.length === 0 && isTried) return undefined;
  try {
    if (draftLayers.length !== 1) {
      const got = draftLayers.length === 0 ? "none" : `${draftLayers.length}`;
      throw refused("one layer for multi-token prediction in the model's file", got, {
        hint: 'Many copies of models leave the layer out; method "auto" drafts without it.',
      });
    }
    const mtp = await bindMtp(model, modelName(modelPath), backend, report);
    report.note("drafts: the model's own layer for multi-token prediction");
    return mtp;
  } catch (thrown) {
    if (!isTried || !(thrown instanceof MillraceError)) throw thrown;
    report.note(`the model's layer for multi-token prediction does not draft: ${thrown.message}`);
    return undefined;
  }
}

function bindMtp(model: OpenModel, name: string, backend: Backend, report: LoadReport): Promise<MtpWeights> {
  const { config, files } = model;
  const { source, numBytes } = model.drafts();
  const sizes = { numBytes, memoryBytes: numBytes };
  const set = { name, files, part: "mtp", ...sizes, source: new MtpTensors(source, config.width) };
  return bindTensors(set, backend, report, (binder) => bindLayer(binder, config));
}

function bindLayer(binder: Binder, model: ServableModel): MtpWeights {
  const { width, vocabSize, layers, draftLayers = [] } = model;
  const config = { ...model, layers: draftLayers };
  const block = `blk.${layers.length}.`;
  const around = `${block}nextn.`;
  const optional = <T>(name: string, bind: (name: string) => T): T | undefined =>
    binder.has(`${around}${name}.weight`) ? bind(`${around}${name}`) : undefined;
  return {
    config,
    joinEmbedding: binder.linear(`${around}${JOIN_EMBEDDING}`, width, width),
    joinState: binder.linear(`${around}${JOIN_STATE}`, width, width),
    embeddingNorm: binder.vector(`${around}enorm.weight`, width),
    stateNorm: binder.vector(`${around}hnorm.weight`, width),
    layer: bindAttentionLayer(binder, draftLayers[0]!, config, block),
    outputNorm: optional("shared_head_norm", (name) => binder.vector(`${name}.weight`, width)),
    output: optional("shared_head_head", (name) => binder.linear(name, vocabSize, width)),
    embedding: optional("embed_tokens", (name) => binder.rows(name, vocabSize, width)),
  };
}

const JOIN = "eh_proj";
const JOIN_EMBEDDING = `${JOIN}_embedding`;
const JOIN_STATE = `${JOIN}_state`;

/** The matrix that reads the embedding and the state side by side appears as two. */
class MtpTensors implements TensorSource {
  constructor(
    private readonly source: TensorSource,
    private readonly width: number,
  ) {}

  has(name: string): boolean {
    const stored = storedName(name);
    return stored === name ? this.source.has(name) : name.endsWith(".weight") && this.source.has(stored);
  }

  matrix(spec: MatrixSpec): MatrixRows {
    const stored = storedName(spec.name);
    if (stored === spec.name) return this.source.matrix(spec);
    const { rows, cols } = spec;
    const totalCols = 2 * this.width;
    const firstCol = spec.name.includes(JOIN_STATE) ? this.width : 0;
    const whole = this.source.matrix({ ...spec, name: stored, cols: totalCols });
    return columnPart(whole, { rows, totalCols, firstCol, cols });
  }

  values(name: string, length: number, count?: number): Float32Array {
    return this.source.values(name, length, count);
  }

  expectNoOthers(names: ReadonlySet<string>): void {
    this.source.expectNoOthers(new Set(Array.from(names, storedName).filter((name) => !name.endsWith(`${JOIN}.bias`))));
  }
}

const storedName = (name: string): string => name.replace(new RegExp(`${JOIN}_(?:embedding|state)\\.`), `${JOIN}.`);
