import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonScanner } from "./json-scanner.js";

function scan(text: string): { readonly isAccepted: boolean; readonly scanner: JsonScanner } {
  const scanner = new JsonScanner();
  return { isAccepted: text.split("").every((char) => scanner.push(char)), scanner };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const damaged = fc
  .tuple(
    fc.json(),
    fc.nat(),
    fc.constantFrom("", "0", "-", ".", "e", '"', "\\", "u", "{", "}", "[", "]", ",", ":", "\n"),
  )
  .map(([text, place, char]) => {
    const at = place % (text.length + 1);
    return text.slice(0, at) + char + text.slice(at + (place % 2));
  });

describe("JsonScanner", () => {
  it("accepts exactly the texts that JSON.parse accepts", () => {
    fc.assert(
      fc.property(fc.oneof(fc.json(), damaged), (text) => {
        // The scanner leaves white space after a value to its caller.
        const { isAccepted, scanner } = scan(text.trimEnd());
        expect(isAccepted && scanner.isComplete).toBe(isJson(text));
      }),
      { numRuns: 5000, seed: 20261121 },
    );
  });

  it.each([
    "01",
    "1.e2",
    "-",
    "[1,]",
    '{"a":1,}',
    "tru e",
    '"\t"',
    '"\\x"',
    '"\\u12g4"',
    "{]",
    '{"a"}',
    "[}",
  ])("refuses %s", (text) => {
    const { isAccepted, scanner } = scan(text);
    expect(isAccepted && scanner.isComplete).toBe(false);
  });

  it("reports whether a value may continue", () => {
    expect(scan("12").scanner).toMatchObject({ isComplete: true, isClosed: false });
    expect(scan("{}").scanner).toMatchObject({ isComplete: true, isClosed: true });
    expect(scan('{"a":1').scanner).toMatchObject({ isComplete: false, isClosed: false });
  });
});
