/** A text and a way to cut it into pieces, for readers that must not care how their text is cut. */
import fc from "fast-check";

interface CutText {
  readonly whole: string;
  readonly pieces: readonly string[];
}

/** Cuts fall anywhere, between the halves of a surrogate pair too. */
export function cutting(text: fc.Arbitrary<string>): fc.Arbitrary<CutText> {
  return text.chain((whole) =>
    fc.uniqueArray(fc.nat(whole.length), { maxLength: 40 }).map((places) => {
      const ends = [...places, whole.length].sort((a, b) => a - b);
      return { whole, pieces: ends.map((end, i) => whole.slice(ends[i - 1] ?? 0, end)) };
    }),
  );
}
