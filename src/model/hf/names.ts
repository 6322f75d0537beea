/** From the loader's tensor names (llama.cpp's) to those of Hugging Face checkpoints. */

import type { HfFolder } from "../../formats/hf/folder.js";
import type { SafetensorsTensor } from "../../formats/safetensors/types.js";
import { type Architecture, factsOf, knownFacts } from "../description/architectures.js";
import { ENCODER_NAMES, encoderNameOf, type HfPrefixes } from "./encoder-names.js";
import { textConfig, traitsOf } from "./model-types.js";
import { FUSED_EXPERTS, GLM_DRAFT_PARTS, GLOBALS, layersPrefixOf, partsOf, QWEN_DRAFT_PARTS } from "./part-names.js";

const HEAD_PREFIXES = ["", "language_model."] as const;
/** InternLM2's and GPT-NeoX's names of the output matrix. */
const OTHER_OUTPUTS: readonly string[] = ["output.weight", "embed_out.weight"];

/** Whether the folder has an output matrix of its own, in whatever form it is stored. */
export function hasOutput({ files }: HfFolder): boolean {
  const names = HEAD_PREFIXES.map((prefix) => `${prefix}lm_head.`);
  return [...files.tensors.keys()].some(
    (tensor) => names.some((name) => tensor.startsWith(name)) || OTHER_OUTPUTS.includes(tensor),
  );
}

/** Prefix of Qwen's tensors for multi-token prediction. */
const QWEN_DRAFT = "mtp.";

/**
 * Layers behind the model's that draft later tokens, as far as the folder has their tensors: Qwen's under names of
 * their own, GLM's as further layers, whose number config.json states.
 */
export function numDraftLayers({ config, files, prefix }: HfFolder): number {
  const text = textConfig(config);
  const numLayers = text.number("num_hidden_layers") ?? 0;
  const names = [...files.tensors.keys()];
  const count = (start: string, isLayer: (index: number) => boolean): number =>
    new Set(
      names
        .filter((name) => name.startsWith(start))
        .map((name) => Number.parseInt(name.slice(start.length), 10))
        .filter(isLayer),
    ).size;
  const { architecture } = traitsOf(config);
  const { draftBlocks, delta } = knownFacts(architecture);
  if (draftBlocks !== "computed") return 0;
  if (delta !== undefined) return count(`${QWEN_DRAFT}layers.`, () => true);
  const end = numLayers + (text.number("num_nextn_predict_layers") ?? 0);
  return count(`${prefix}layers.`, (index) => index >= numLayers && index < end);
}

/** Tensors whose names in checkpoints do not end in .weight or .bias. */
const KINDLESS: ReadonlySet<string> = new Set([
  "attn_sinks",
  "exp_probs_b",
  "layer_output_scale",
  "ssm_a",
  "ssm_d",
  "ssm_dt",
  "ffn_gate_inp.scale",
  "ffn_down_exps.scale",
]);
/** Matrices of all experts of a layer, whose names in checkpoints do not end in .weight, Granite's apart. */
const WEIGHTLESS: ReadonlySet<string> = new Set([...Object.keys(FUSED_EXPERTS), "ffn_up_exps"]);

/** Whether the tensor has the taps of a convolution, which checkpoints keep with one input each. */
export const isTaps = (name: string): boolean => /\.(?:ssm_conv1d|shortconv\.conv)\.weight$/.test(name);

/** Name of a tensor around the layers, but for what it ends in; undefined: checkpoints have none of that name. */
function globalOf(base: string, architecture: Architecture, { model, head }: HfPrefixes): string | undefined {
  const parts = partsOf(architecture);
  if (!GLOBALS.includes(base) || !Object.hasOwn(parts, base)) return undefined;
  return `${base === "output" ? head : model}${parts[base]}.`;
}

/** Whether folders store the tensor as its distance from one. */
export const isOffsetNorm = (name: string, architecture: Architecture): boolean =>
  factsOf(architecture).hasOffsetNorms === true && name.endsWith("norm.weight") && !name.endsWith(".ssm_norm.weight");

/** Whether folders store the vector as a matrix of one row. */
export const isOneRow = (name: string, architecture: Architecture): boolean =>
  factsOf(architecture).experts?.hasScoreBiases === true && name.endsWith(".exp_probs_b.bias");

/** Whether folders store the matrix with a row for each input. */
export const isTransposed = (name: string, architecture: Architecture): boolean =>
  architecture === "gpt2" && /\.(?:attn_qkv|attn_output|ffn_up|ffn_down)\.weight$/.test(name);

/** Whether folders store the logarithm of the tensor's negative. */
export const isNegativeLog = (name: string): boolean => name.endsWith(".ssm_a");

/**
 * @example hfNameOf("blk.3.attn_q.weight", "llama", { model: "model.", head: "" })
 *   // "model.layers.3.self_attn.q_proj.weight"
 * @returns undefined for tensors that these checkpoints do not have
 */
export function hfNameOf(name: string, architecture: Architecture, prefixes: HfPrefixes): string | undefined {
  const { model } = prefixes;
  const [, base = "", kind = ""] = /^(.*?)(?:\.(weight|bias|scale))?$/.exec(name) ?? [];
  const ofEncoder = ENCODER_NAMES[architecture];
  if (ofEncoder !== undefined) {
    const stored = encoderNameOf(base, ofEncoder, prefixes);
    return stored === undefined ? undefined : withKind(stored, base.replace(/^blk\.\d+\./, ""), kind);
  }
  if (base === "cls.output") return `score.${kind}`;
  const global = globalOf(base, architecture, prefixes);
  if (global !== undefined) return `${global}${kind}`;
  const draft = draftNameOf(base, architecture, prefixes);
  if (draft !== undefined) return `${draft}.${kind}`;
  const [, layer, part = "", expert = ""] = /^blk\.(\d+)\.((?:shortconv\.)?\w+\.?)(\d*)$/.exec(base) ?? [];
  const parts = partsOf(architecture);
  const key = kind === "scale" ? `${part}.scale` : part;
  if (layer === undefined || !Object.hasOwn(parts, key)) return undefined;
  const { firstDraft = Number.POSITIVE_INFINITY } = prefixes;
  const isOfQwenDraft = Number(layer) >= firstDraft && factsOf(architecture).delta !== undefined;
  const start = isOfQwenDraft
    ? `${QWEN_DRAFT}layers.${Number(layer) - firstDraft}`
    : `${layersPrefixOf(architecture, model)}${layer}`;
  return withKind(`${start}.${parts[key]!.replace("#", expert)}`, key, kind);
}

/** @returns undefined for tensors that are not around a layer that drafts */
function draftNameOf(base: string, architecture: Architecture, { model }: HfPrefixes): string | undefined {
  const [, layer, part = ""] = /^blk\.(\d+)\.nextn\.(\w+)$/.exec(base) ?? [];
  if (layer === undefined) return undefined;
  const isQwen = factsOf(architecture).delta !== undefined;
  const parts = isQwen ? QWEN_DRAFT_PARTS : GLM_DRAFT_PARTS;
  if (!Object.hasOwn(parts, part)) return undefined;
  return isQwen ? `${QWEN_DRAFT}${parts[part]}` : `${model}layers.${layer}.${parts[part]}`;
}

/** @param part of the loader's name */
function withKind(stored: string, part: string, kind: string): string | undefined {
  if (KINDLESS.has(part)) return stored;
  if (kind === "") return undefined;
  if (!WEIGHTLESS.has(part) || stored.endsWith("_linear")) return `${stored}.${kind}`;
  return kind === "weight" ? stored : undefined;
}

/** A part of a tensor that has a matrix for each expert. */
export interface StackedPart {
  /** Name of the layer's experts. */
  readonly experts: string;
  /** Name of the tensor among them. */
  readonly name: string;
  /** Its rows are those from `phase` on, every `step`-th one. */
  readonly step: number;
  readonly phase: number;
}

const STACKED_PARTS: Partial<Record<Architecture, Readonly<Record<string, Omit<StackedPart, "experts">>>>> = {
  "gpt-oss": {
    ffn_gate_exps: { name: "gate_up_proj", step: 2, phase: 0 },
    ffn_up_exps: { name: "gate_up_proj", step: 2, phase: 1 },
    ffn_down_exps: { name: "down_proj", step: 1, phase: 0 },
  },
  // Each expert's second matrix is stored like its first one, [inner, width].
  "nomic-bert-moe": { ffn_down_exps: { name: "mlp.w2", step: 1, phase: 0 } },
};

/** @returns undefined for tensors that these checkpoints have one by one, or not at all */
export function stackedPartOf(
  name: string,
  architecture: Architecture,
  { model }: Pick<HfPrefixes, "model">,
): StackedPart | undefined {
  const parts = STACKED_PARTS[architecture];
  if (parts === undefined) return undefined;
  const [, layer, part = ""] = /^blk\.(\d+)\.(\w+)\.(?:weight|bias)$/.exec(name) ?? [];
  if (layer === undefined || !Object.hasOwn(parts, part)) return undefined;
  const layers = ENCODER_NAMES[architecture]?.layers.replace("#", model) ?? `${model}layers.`;
  return { experts: `${layers}${layer}.mlp.experts`, ...parts[part]! };
}

/** Names of Mixtral's routers beside fused experts. */
const withFusedNames = (name: string): string => name.replace(".block_sparse_moe.", ".mlp.");

export class HfNames {
  readonly #prefixes: HfPrefixes;
  readonly #hasFusedNames: boolean;
  readonly #numStatedDrafts: number;
  /** Of stacks of experts that lie transposed. */
  readonly #transposed: ReadonlySet<string>;

  constructor({ files, prefix, config }: HfFolder) {
    const width = traitsOf(config).experts?.mayBeTransposed ? textConfig(config).number("hidden_size") : undefined;
    const stacks = [...files.tensors.values()].filter(({ name }) => /\.experts\.(?:gate_up|down)_proj$/.test(name));
    const isTransposed = ({ name, shape }: SafetensorsTensor) => shape[name.endsWith(".down_proj") ? 1 : 2] !== width;
    this.#transposed = new Set(width === undefined ? [] : stacks.filter(isTransposed).map(({ name }) => name));
    this.#numStatedDrafts = textConfig(config).number("num_nextn_predict_layers") ?? 0;
    this.#hasFusedNames = files.tensors.has(`${prefix}layers.0.${FUSED_EXPERTS.ffn_down_exps}`);
    const head = HEAD_PREFIXES.find((candidate) => files.tensors.has(`${candidate}lm_head.weight`)) ?? "";
    this.#prefixes = {
      model: prefix,
      head,
      hasOwnClassifier: files.tensors.has("classifier.out_proj.weight"),
      firstDraft: textConfig(config).number("num_hidden_layers") ?? Number.POSITIVE_INFINITY,
    };
  }

  /** Whether a stored tensor is of a layer that drafts, or stands around it. */
  isOfDraft(stored: string, architecture: Architecture, numDraftLayers: number): boolean {
    if (numDraftLayers === 0) return false;
    if (factsOf(architecture).delta !== undefined) return stored.startsWith(QWEN_DRAFT);
    const { firstDraft = 0 } = this.#prefixes;
    const index = this.layerOf(stored);
    return index >= firstDraft && index < firstDraft + numDraftLayers;
  }

  /** Whether a stored tensor is the language model's, and not of a tower beside it or of a layer behind an encoder. */
  isOfModel(stored: string, architecture: Architecture): boolean {
    const { model } = this.#prefixes;
    const isLeftOut = factsOf(architecture).draftBlocks === "left out";
    if (isLeftOut && this.isOfDraft(stored, architecture, this.#numStatedDrafts)) return false;
    const own = ENCODER_NAMES[architecture]?.own.map((start) => start.replace("#", model)) ?? [
      layersPrefixOf(architecture, model),
      ...GLOBALS.flatMap((base) => globalOf(base, architecture, this.#prefixes) ?? []),
    ];
    return own.some((start) => stored.startsWith(start));
  }

  /** Index of the layer whose part a stored tensor is; NaN: of none. */
  layerOf(stored: string): number {
    const start = `${this.#prefixes.model}layers.`;
    return stored.startsWith(start) ? Number.parseInt(stored.slice(start.length), 10) : Number.NaN;
  }

  stackedOf(name: string, architecture: Architecture): StackedPart | undefined {
    const stored = this.of(name, architecture);
    if (stored === undefined || !this.#transposed.has(stored)) {
      return stackedPartOf(name, architecture, this.#prefixes);
    }
    const [, experts = "", part = ""] = /^(.*)\.(\w+)$/.exec(stored) ?? [];
    return { experts, name: part, step: 1, phase: 0 };
  }

  of(name: string, architecture: Architecture): string | undefined {
    const stored = hfNameOf(name, architecture, this.#prefixes);
    return this.#hasFusedNames && stored !== undefined ? withFusedNames(stored) : stored;
  }
}
