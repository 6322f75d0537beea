/** Prompts of random token ids, which no cache contains; the same seed gives the same prompts. */

import { generator } from "../../core/random.js";

interface PromptShape {
  readonly batch: number;
  readonly promptTokens: number;
  /** Number of leading tokens that all prompts of the batch share. */
  readonly sharedPrefix: number;
  readonly vocabSize: number;
}

/** @param seed other seeds give unrelated prompts and prefixes */
export function randomPrompts(shape: PromptShape, seed: number): Int32Array[] {
  const next = generator(Math.imul(seed + 1, 0x9e3779b1));
  const draw = (count: number): number[] => Array.from({ length: count }, () => next() % shape.vocabSize);
  const prefix = draw(shape.sharedPrefix);
  const numOwn = shape.promptTokens - shape.sharedPrefix;
  return Array.from({ length: shape.batch }, () => Int32Array.from([...prefix, ...draw(numOwn)]));
}
