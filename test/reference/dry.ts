/** DRY's penalties by its definition, with every text compared token by token. */
import type { DryPenalty } from "../../src/engine/api/request.js";

/** @param tokens all before the position @returns what each token loses */
export function dryPenalties(tokens: readonly number[], dry: DryPenalty): Map<number, number> {
  const seen = dry.window === undefined ? tokens : tokens.slice(Math.max(tokens.length - dry.window, 0));
  const longestAllowed = numSinceBreaker(seen, dry);
  const lengths = new Map<number, number>();
  for (let next = 1; next < seen.length; next++) {
    let length = 0;
    while (length < next && seen[next - 1 - length] === seen[seen.length - 1 - length]) length++;
    length = Math.min(length, longestAllowed);
    if (length >= dry.allowedLength) lengths.set(seen[next]!, Math.max(length, lengths.get(seen[next]!) ?? 0));
  }
  const penalties = new Map<number, number>();
  for (const [id, length] of lengths) {
    const isBreaker = dry.breakers.some(({ heads, tail }) => tail.length === 0 && [...heads].includes(id));
    if (!isBreaker) penalties.set(id, Math.min(dry.multiplier * dry.base ** (length - dry.allowedLength), 1e30));
  }
  return penalties;
}

/** Tokens behind the breaker that begins last; of several that begin there, behind the longest. */
function numSinceBreaker(seen: readonly number[], { breakers }: DryPenalty): number {
  for (let start = seen.length - 1; start >= 0; start--) {
    const behind = seen.slice(start + 1);
    const tails = breakers
      .filter(({ heads }) => [...heads].includes(seen[start]!))
      .map(({ tail }) => tail)
      .filter((tail) => tail.length <= behind.length && tail.every((id, i) => id === behind[i]));
    if (tails.length > 0) return behind.length - Math.max(...tails.map(({ length }) => length));
  }
  return seen.length;
}
