import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MillraceError } from "../core/errors.js";
import { StopStringMatcher } from "./stop-strings.js";

/**
 * The definition: the first position at which a stop string is complete, and the longest stop string that ends there.
 */
function cutWhole(
  text: string,
  stops: readonly string[],
  includeStop: boolean,
): { text: string; matched: string | undefined } {
  for (let end = 1; end <= text.length; end++) {
    const complete = stops.filter((stop) => text.slice(0, end).endsWith(stop));
    const matched = complete.sort((a, b) => b.length - a.length)[0];
    if (matched !== undefined) return { text: text.slice(0, includeStop ? end : end - matched.length), matched };
  }
  return { text, matched: undefined };
}

function run(
  chunks: readonly string[],
  stops: readonly string[],
  includeStop = false,
): { text: string; matched: string | undefined } {
  const matcher = new StopStringMatcher(stops, { includeStop });
  let text = "";
  let matched: string | undefined;
  for (const chunk of chunks) {
    const result = matcher.push(chunk);
    text += result.text;
    matched = result.matched;
  }
  return { text: text + matcher.flush(), matched };
}

describe("StopStringMatcher", () => {
  it("equals the definition on the whole text, however the text is cut", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", "😀"), minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom("a", "b", "😀"), maxLength: 8 }), { maxLength: 12 }),
        fc.array(word, { maxLength: 4 }),
        fc.boolean(),
        (chunks, stops, includeStop) => {
          expect(run(chunks, stops, includeStop)).toEqual(cutWhole(chunks.join(""), stops, includeStop));
        },
      ),
      { seed: 7, numRuns: 3000 },
    );
  });

  it("holds back only text that may become a stop string", () => {
    const matcher = new StopStringMatcher(["END"]);
    expect(matcher.push("abE")).toEqual({ text: "ab", matched: undefined });
    expect(matcher.push("N")).toEqual({ text: "", matched: undefined });
    expect(matcher.push("x")).toEqual({ text: "ENx", matched: undefined });
    expect(matcher.flush()).toBe("");
  });

  it("discards the text after a match, in the same piece and in later ones", () => {
    const matcher = new StopStringMatcher(["\n\n"]);
    expect(matcher.push("a\n\nb")).toEqual({ text: "a", matched: "\n\n" });
    expect(matcher.push("c")).toEqual({ text: "", matched: "\n\n" });
    expect(matcher.flush()).toBe("");
  });

  it("matches the stop string that is complete first, and the longest of those that end together", () => {
    expect(run(["abcd"], ["abcd", "bc"])).toEqual({ text: "a", matched: "bc" });
    expect(run(["xabc"], ["c", "abc", "bc"])).toEqual({ text: "x", matched: "abc" });
  });

  it("finds a stop string that begins inside a failed match of itself", () => {
    expect(run(["aab", "aaab"], ["aabaaab"])).toEqual({ text: "", matched: "aabaaab" });
    expect(run(["aaab"], ["aab"])).toEqual({ text: "a", matched: "aab" });
  });

  it("passes text through without stop strings, and refuses an empty stop string", () => {
    expect(run(["a", "b"], [])).toEqual({ text: "ab", matched: undefined });
    expect(() => new StopStringMatcher(["a", ""])).toThrow(MillraceError);
  });
});
