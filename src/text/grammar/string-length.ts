/**
 * Bounds of a string's length that grammars only signal. If the grammar counted, each character would be a separate
 * state, for which the grammar engine checks the whole vocabulary, or a repetition, for which it tries thousands of
 * tokens at every mask. Instead the string's rule has signals: alternatives that no token of a model can write. A
 * vocabulary with signal tokens shows in each mask which bounds hold at a position, and the mask computation counts
 * characters.
 */

import { MAX_REPETITIONS } from "./regex.js";

/** Larger bounds are refused. */
const MAX_STRING_LENGTH = MAX_REPETITIONS;

/**
 * Grammars count maxima up to this length, because one token may contain the opening quote and this many characters.
 */
export const MAX_COUNTED_LENGTH = 8;

/** Grammars count minima up to this length, because one token may open and close a string. */
export const MAX_COUNTED_MINIMUM = 4;

/** No text contains this byte, and no special token has the bytes of a signal after it; see markers.ts. */
const SIGNAL_BYTE = 0xff;
const KINDS = { min: 1, max: 2 } as const;

export interface LengthBounds {
  readonly min: number;
  readonly max: number | undefined;
}

function signalBytes(kind: keyof typeof KINDS, length: number): readonly number[] {
  return [SIGNAL_BYTE, KINDS[kind], length >> 8, length & 0xff];
}

/** The alternatives that signal bounds at a position. */
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

/** The signal tokens for a vocabulary: first the minima, then the maxima, each from 0 on. */
export const SIGNAL_TOKENS: readonly Uint8Array[] = (["min", "max"] as const).flatMap((kind) =>
  Array.from({ length: MAX_STRING_LENGTH + 1 }, (_, length) => Uint8Array.from(signalBytes(kind, length))),
);

/**
 * Grammars only signal lengths that they do not count, so 0 is never signalled. If its token fits, any text fits, and
 * no bound holds.
 */
const NEVER_SENT = 0;

/**
 * The bounds at a position, from the signals that fit there (as indices into SIGNAL_TOKENS); undefined: there are none.
 * If several strings are possible, the bounds of one of them.
 */
export function boundsOf(signals: readonly number[]): LengthBounds | undefined {
  if (signals.length === 0 || signals.includes(NEVER_SENT)) return undefined;
  const mins = signals.filter((index) => index <= MAX_STRING_LENGTH);
  const min = Math.max(0, ...mins);
  // The string with the greatest minimum has a larger maximum, or none.
  const maxs = signals.map((index) => index - MAX_STRING_LENGTH - 1).filter((max) => max >= min);
  return { min, max: maxs.length === 0 ? undefined : Math.min(...maxs) };
}
