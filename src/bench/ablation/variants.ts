/**
 * Layers are optimisations that can be disabled; each variant is a server with some of them. Naive has none; vanilla has the foundation, continuous
 * batching and paged KV memory; all together has every layer.
 */
import type { ServerShape } from "../workload/scenarios.js";

interface Layer {
  readonly name: string;
  /** Flags of a server with the layer, and of one without. */
  on(shape: ServerShape): readonly string[];
  off(shape: ServerShape): readonly string[];
  /** Weights that replace those in F16. */
  readonly modelPath?: string | undefined;
}

interface Variant {
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

/** Alone, a layer of the foundation is added to naive, and an optimisation to vanilla. */
export const aloneName = (base: typeof NAIVE | typeof VANILLA, layer: string): string => `${base} + ${layer}`;
export const withoutName = (layer: string): string => `all but ${layer}`;

export const SPECULATION = "speculation";
export const INT8_KV = "int8 KV";

const flags =
  (...words: readonly string[]) =>
  (): readonly string[] =>
    words;

export const FOUNDATION: readonly Layer[] = [
  { name: "continuous batching", on: flags(), off: flags("--batching", "static") },
  { name: "paged KV", on: flags(), off: flags("--kv-layout", "contiguous") },
];

/** @param speculation value of --speculative-config */
export function optimisations(speculation: string): Layer[] {
  return [
    {
      name: "chunked prefill",
      on: flags(),
      off: ({ maxModelLen, seats }) => [
        "--no-enable-chunked-prefill",
        "--max-num-batched-tokens",
        String(Math.max(maxModelLen, 2 * seats)),
      ],
    },
    { name: "prefix cache", on: flags(), off: flags("--no-enable-prefix-caching") },
    { name: "shared KV reads", on: flags(), off: flags("--no-share-kv-reads") },
    { name: INT8_KV, on: flags("--kv-cache-dtype", "int8"), off: flags("--kv-cache-dtype", "f16") },
    {
      name: SPECULATION,
      on: flags("--speculative-config", speculation),
      off: flags("--speculative-config", '{"method":"none"}'),
    },
  ];
}

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
    ...foundation.map((layer) => variant(aloneName(NAIVE, layer.name), [layer])),
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
