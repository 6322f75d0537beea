/**
 * Layers are optimisations that can be disabled; each variant is a server with some of them. Naive has none; vanilla
 * has the foundation (continuous batching and, if the engine can disable it, paged KV memory); all together has every
 * layer. The folder `engines` has the layers of each engine.
 */
import type { ServerShape } from "../workload/scenarios.js";

export interface Layer {
  readonly name: string;
  /** Flags of a server with the layer, and of one without. */
  on(shape: ServerShape): readonly string[];
  off(shape: ServerShape): readonly string[];
  /** Weights that replace those in F16. */
  readonly modelPath?: string | undefined;
}

export interface Variant {
  readonly name: string;
  readonly layers: readonly Layer[];
  readonly isOnHalf: boolean;
}

export interface Layers {
  readonly foundation: readonly Layer[];
  readonly optimisations: readonly Layer[];
  /** Weights of further types are measured alone and are not part of all together. */
  readonly alternatives: readonly Layer[];
}

export const NAIVE = "naive";
export const VANILLA = "vanilla";
export const ALL = "all together";
export const HALF = "all, half the threads";
/** Baselines without a serving engine: Hugging Face transformers, one request at a time, and in static batches. */
export const TRANSFORMERS = "transformers";
export const TRANSFORMERS_BATCHES = "transformers, static batches";

/** Name of a layer measured alone: a layer of the foundation is added to naive, an optimisation to vanilla. */
export const aloneName = (base: typeof NAIVE | typeof VANILLA, layer: string): string => `${base} + ${layer}`;
/** Name of the variant with one layer of the foundation: vanilla, if the foundation has only this layer. */
export const foundationName = (foundation: readonly unknown[], layer: string): string =>
  foundation.length === 1 ? VANILLA : aloneName(NAIVE, layer);
export const withoutName = (layer: string): string => `all but ${layer}`;

export const SPECULATION = "speculation";
export const PREFIX_CACHE = "prefix cache";

export const flags =
  (...words: readonly string[]) =>
  (): readonly string[] =>
    words;

/** Each engine turns the server's --speculative-config into its own flags. */
export const DRAFTS: Layer = { name: SPECULATION, on: flags(), off: flags() };

/** A step as long as the longest prompt, for servers without chunked prefill. */
export const unchunkedTokens = ({ maxModelLen, seats }: ServerShape): string =>
  String(Math.max(maxModelLen, 2 * seats));

/** @example weightsLayer("Q4_0", "model-q4_0.gguf").name // "Q4_0 weights" */
export function weightsLayer(type: string, modelPath: string): Layer {
  return { name: `${type} weights`, on: flags(), off: flags(), modelPath };
}

/** The baselines come first; all together and its half come last. */
export function variantsOf({ foundation, optimisations: optional, alternatives }: Layers): Variant[] {
  const all = [...foundation, ...optional];
  const variant = (name: string, layers: readonly Layer[], isOnHalf = false): Variant => ({ name, layers, isOnHalf });
  return [
    variant(NAIVE, []),
    ...(foundation.length === 1 ? [] : foundation.map((layer) => variant(aloneName(NAIVE, layer.name), [layer]))),
    variant(VANILLA, foundation),
    ...[...optional, ...alternatives].map((layer) => variant(aloneName(VANILLA, layer.name), [...foundation, layer])),
    ...all.map((layer) =>
      variant(
        withoutName(layer.name),
        all.filter((each) => each !== layer),
      ),
    ),
    variant(ALL, all),
    variant(HALF, all, true),
  ];
}

/** The server's flags, in addition to those for its size. */
export function flagsOf({ layers }: Variant, all: Layers, shape: ServerShape): string[] {
  const has = (layer: Layer) => layers.includes(layer);
  return [...all.foundation, ...all.optimisations].flatMap((layer) =>
    has(layer) ? layer.on(shape) : layer.off(shape),
  );
}
