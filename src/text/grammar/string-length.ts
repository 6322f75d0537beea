/**
 * Bounds of a string's length that grammars only name. Counted by the grammar, each character would be a state of its own, for which the grammar engine
 * looks at the whole vocabulary, or a repetition, for which it tries thousands of tokens at every mask. Instead the string's rule has alternatives that no token of a model can write:
 * signals. A vocabulary that has them shows in each mask which bounds hold at that place, and the mask computation counts the characters.
 */

import { MAX_REPETITIONS } from "./regex.js";

/** Longer bounds are refused. */
const MAX_STRING_LENGTH = MAX_REPETITIONS;

/** Up to so many characters are counted by grammars: a token may bring them together with the quote that opens the string. */
export const MAX_COUNTED_LENGTH = 8;

/** The same for the least number, in tokens that open and close a string. */
export const MAX_COUNTED_MINIMUM = 4;

/** No text contains this byte, and no special token continues it with the bytes of a signal; see markers.ts. */
const SIGNAL_BYTE = 0xff;
const KINDS = { min: 1, max: 2 } as const;

export interface LengthBounds {
  readonly min: number;
  readonly max: number | undefined;
}

function signalBytes(kind: keyof typeof KINDS, length: number): readonly number[] {
  return [SIGNAL_BYTE, KINDS[kind], length >> 8, length & 0xff];
}

/** Alternatives for a place where the bounds hold. */
export function signalsOf({ min, max }: LengthBounds): string[] {
  const spell = (bytes: readonly number[]) =>
    bytes.map((byte) => byte.toString(16).padStart(2, "0")).map((hex) => `[\\x${hex}\\x${hex}]`);
  return [
    ...(min > MAX_COUNTED_MINIMUM ? [spell(signalBytes("min", min)).join(" ")] : []),
    ...(max !== undefined ? [spell(signalBytes("max", max)).join(" ")] : []),
  ];
}

export function hasSignals(grammar: string): boolean {
  return [KINDS.min, KINDS.max].some((kind) => grammar.includes(`[\\xff\\xff] [\\x0${kind}\\x0${kind}]`));
}

/** Tokens for a vocabulary: first those of least lengths, then those of greatest ones, each from 0 on. */
export const SIGNAL_TOKENS: readonly Uint8Array[] = (["min", "max"] as const).flatMap((kind) =>
  Array.from({ length: MAX_STRING_LENGTH + 1 }, (_, length) => Uint8Array.from(signalBytes(kind, length))),
);

/** Grammars signal only lengths that they do not count themselves: where this one fits, any text fits and no bound holds. */
const NEVER_SENT = 0;

/**
 * The bounds of a place, from the signals that fit there (by their places among SIGNAL_TOKENS); undefined: there are none. Where several strings could be
 * meant, bounds that one of them has.
 */
export function boundsOf(signals: readonly number[]): LengthBounds | undefined {
  if (signals.length === 0 || signals.includes(NEVER_SENT)) return undefined;
  const mins = signals.filter((index) => index <= MAX_STRING_LENGTH);
  const min = Math.max(0, ...mins);
  // The string with the greatest minimum has a maximum above it, or none.
  const maxs = signals.map((index) => index - MAX_STRING_LENGTH - 1).filter((max) => max >= min);
  return { min, max: maxs.length === 0 ? undefined : Math.min(...maxs) };
}
