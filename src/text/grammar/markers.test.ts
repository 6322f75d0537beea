/** Markers that are not special tokens, in the grammar engine itself. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { grammarMatcher } from "../../../test/helpers/grammar-matcher.js";
import { GrammarWriter, literal } from "./ebnf.js";
import { Markers } from "./markers.js";

test("a text goes on right behind the first occurrence of its marker, in any script", async () => {
  const accepts = await grammarMatcher();
  // U+2581 and U+2582 share their first two bytes, as U+FF5C and U+FF5D do.
  const unit = fc.constantFrom("a", "<", "\uff5c", "\uff5d", "\u2581", "\u2582");
  const markers = fc.string({ unit, minLength: 1, maxLength: 4 });
  const texts = fc.array(fc.oneof(fc.constant("!"), fc.constant(undefined), unit), { maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(markers, texts, async (marker, pieces) => {
      const writer = new GrammarWriter();
      const root = new Markers(new Set()).through(writer, marker, literal("!"));
      const text = pieces.map((piece) => piece ?? marker).join("");
      expect(await accepts(writer.text(root), text)).toBe(isRight(text, marker));
    }),
    { numRuns: 60 },
  );
});

const isRight = (text: string, marker: string): boolean => {
  const at = text.indexOf(marker);
  return at >= 0 && text.slice(at + marker.length) === "!";
};
