/**
 * Chained hashes of token blocks: the keys by which the engine's cache and the router find prefixes. A key is an
 * integer below 2⁵³ (two truncated 32-bit mixing lanes), so it works as a Map key. A reader that finds an entry also
 * compares the tokens.
 */

/**
 * The salt of a request's prefixes; it keeps tenants from sharing them.
 * @param scope the owner of the prefixes; "": all tenants share them. A scope has no colon, so different pairs of scope
 * and salt stay different.
 */
export function scopedSalt(scope: string, salt: string | undefined): string | undefined {
  return scope === "" ? salt : `${scope}:${salt ?? ""}`;
}

/** Key of the empty prefix for a salt. */
export function rootKey(salt: string | undefined): number {
  if (salt === undefined || salt === "") return finish(0x9e3779b9, 0x85ebca6b);
  let low = 0x243f6a88;
  let high = 0x13198a2e;
  for (let i = 0; i < salt.length; i++) {
    low = mix(low, salt.charCodeAt(i));
    high = mix(high, salt.charCodeAt(i) ^ 0x5bd1e995);
  }
  return finish(low, high);
}

/** Key of the prefix that ends with `tokens[start … start + length)`, after the prefix with key `parentKey`. */
export function blockKey(parentKey: number, tokens: ArrayLike<number>, start: number, length: number): number {
  let low = mix(0x243f6a88, parentKey | 0);
  let high = mix(0x13198a2e, Math.floor(parentKey / 0x100000000));
  for (let i = start; i < start + length; i++) {
    const token = tokens[i]!;
    low = mix(low, token);
    high = mix(high, token ^ 0x5bd1e995);
  }
  return finish(low, high);
}

/** One round of MurmurHash3's 32-bit body. */
function mix(hash: number, value: number): number {
  let k = Math.imul(value, 0xcc9e2d51);
  k = (k << 15) | (k >>> 17);
  const mixed = hash ^ Math.imul(k, 0x1b873593);
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64) | 0;
}

/** MurmurHash3's finaliser on both lanes, joined to 53 bits. */
function finish(low: number, high: number): number {
  const a = avalanche(low ^ Math.imul(high, 0x9e3779b1));
  const b = avalanche(high ^ Math.imul(low, 0x85ebca77));
  return (b & 0x1fffff) * 0x100000000 + (a >>> 0);
}

function avalanche(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}
