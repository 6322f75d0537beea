/** Seeds of requests: the client's own, or one drawn at the door, before anything can be retried (exactness rule E5). */
import { randomBytes } from "node:crypto";
import { choiceSeed } from "../../engine/api/request.js";

/** Gives a seed to a request that brought none. */
export type SeedSource = () => bigint;

export const randomSeed: SeedSource = () => randomBytes(8).readBigUInt64LE();

/** The k-th seedless request after start always gets the same seed (`--seed`). */
export function seedsFrom(serverSeed: bigint): SeedSource {
  let numDrawn = 0;
  return () => choiceSeed(serverSeed, ++numDrawn);
}

export function seedOf(seed: number | undefined, draw: SeedSource): bigint {
  return seed === undefined ? draw() : BigInt.asUintN(64, BigInt(seed));
}
