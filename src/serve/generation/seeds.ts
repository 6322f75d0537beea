/**
 * Seeds of requests: the client's own, or one drawn at arrival, so that every retry uses the same seed (exactness rule
 * E5).
 */
import { randomBytes } from "node:crypto";
import { choiceSeed } from "../../engine/api/request.js";

/** Draws a seed for a request without one. */
export type SeedSource = () => bigint;

export const randomSeed: SeedSource = () => randomBytes(8).readBigUInt64LE();

/** The k-th request without a seed after start always gets the same seed (`--seed`). */
export function seedsFrom(serverSeed: bigint): SeedSource {
  let numDrawn = 0;
  return () => choiceSeed(serverSeed, ++numDrawn);
}

/** The seed of each choice, by its index among all choices of a request. */
export type ChoiceSeeds = (choice: number) => bigint;

/** Gives each choice its own seed. */
export function choiceSeeds(seed: number | undefined, draw: SeedSource): ChoiceSeeds {
  const first = seedOf(seed, draw);
  return (choice) => choiceSeed(first, choice);
}

export function seedOf(seed: number | undefined, draw: SeedSource): bigint {
  return seed === undefined ? draw() : BigInt.asUintN(64, BigInt(seed));
}
