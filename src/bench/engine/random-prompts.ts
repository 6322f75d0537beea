/** Prompts that no cache has seen: token ids drawn from a seed, the same for every run. */

import { generator } from "../workload/random.js";

interface PromptShape {
  readonly batch: number;
  readonly promptTokens: number;
  /** The first so many tokens are the same in all prompts of the batch; 0: each has its own. */
  readonly sharedPrefix: number;
  readonly vocabSize: number;
}

/** @param seed another one gives prompts, and a shared prefix, that have nothing in common with these. */
export function randomPrompts(shape: PromptShape, seed: number): Int32Array[] {
  const next = generator(Math.imul(seed + 1, 0x9e3779b1));
  const draw = (count: number): number[] => Array.from({ length: count }, () => next() % shape.vocabSize);
  const prefix = draw(shape.sharedPrefix);
  const numOwn = shape.promptTokens - shape.sharedPrefix;
  return Array.from({ length: shape.batch }, () => Int32Array.from([...prefix, ...draw(numOwn)]));
}
