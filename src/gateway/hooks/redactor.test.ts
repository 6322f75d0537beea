import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { cases } from "../../../test/helpers/long.js";
import { MAX_MATCH_LENGTH } from "./pattern-scan.js";
import { compilePatterns, type PatternSource } from "./pattern-set.js";
import { isCardNumber, isIban, PERSONAL_DATA, personalDataPatterns } from "./personal-data.js";
import { redactTexts, TextRedactor } from "./redactor.js";

const PERSONAL = compilePatterns(personalDataPatterns(PERSONAL_DATA));

async function redacted(text: string, patterns = PERSONAL): Promise<string> {
  return (await redactTexts(patterns, [text], () => {}))[0]!;
}

describe("personal data", () => {
  test.each([
    ["Mail john.doe+x@mail.example.com, please.", "Mail [email], please."],
    ["jörg@münchen.example and o'neil@a.io", "[email] and [email]"],
    ["call +49 170 1234567 or (555) 123-4567 or 0170 1234567", "call [phone] or [phone] or [phone]"],
    ["tel +1-202-555-0123; 00 49 30 901820", "tel [phone]; 00 49 30 901820"],
    ["IBAN DE89 3704 0044 0532 0130 00.", "IBAN [iban]."],
    ["iban gb82west12345698765432 and more", "iban [iban] and more"],
    ["card 4111 1111 1111 1111 exp 12/27", "card [credit-card] exp 12/27"],
    ["5500-0000-0000-0004", "[credit-card]"],
    ["from 10.0.0.255 to 2001:db8::1, fe80::1%eth0", "from [ip] to [ip], [ip]%eth0"],
  ])("%j", async (text, expected) => {
    expect(await redacted(text)).toBe(expected);
  });

  test.each([
    "at 10:30:15 on 2026-11-25, version 1.2.3, 50 % of 1000000",
    "GB82 WEST 1234 5698 7654 33",
    "4111 1111 1111 1112",
    "a 20-digit number 41111111111111111111",
    "user @ home, a@b, https://example.com/x?y=1",
    "std::vector<int> and a::b and ::",
    "300.1.1.1 and 10.0.0.256",
    "0.123456 and 12345678",
  ])("%j has none", async (text) => {
    expect(await redacted(text)).toBe(text);
  });

  test.each([
    ["zero-width spaces", "to ann\u200b@exam\u200bple.com!", "to [email]!"],
    ["a soft hyphen in the domain", "ann@exam\u00adple.com", "[email]"],
    ["fullwidth forms", "ａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ", "[email]"],
    ["an ideographic full stop", "ann@example。com", "[email]"],
    ["mathematical letters", "x 𝐚𝐧𝐧@𝐞𝐱𝐚𝐦𝐩𝐥𝐞.𝐜𝐨𝐦 y", "x [email] y"],
    ["tag characters, which nobody sees", "ann@exa\u{e0041}mple.com", "[email]"],
    ["a card's digits apart", "4111\u200b1111\u200b1111\u200b1111", "[credit-card]"],
    ["Arabic digits", "card ٤111 1111 1111 1111", "card [credit-card]"],
    ["other hyphens", "5500\u20110000\u20100000\u22120004", "[credit-card]"],
    ["a smile behind it", "ann@example.com😀", "[email]😀"],
    ["an invisible end", "ann@example.com\u200b.", "[email]\u200b."],
    ["digits beyond the first plane", "card \u{104a4}111 1111 1111 1111", "card [credit-card]"],
    ["controls and accents", "ann@exam\u0000p\u0301le\ufff9.com", "[email]"],
    [
      "a long text before it",
      `${" ".repeat(15)}𝐚𝐧𝐧@example.com is my mail, please write`,
      `${" ".repeat(15)}[email] is my mail, please write`,
    ],
  ])("is found in %s, wherever it is cut", async (_name, text, expected) => {
    expect(await redacted(text)).toBe(expected);
    const inPieces = (texts: readonly string[]): string => {
      const redactor = new TextRedactor(PERSONAL, () => {});
      return texts.map((piece) => redactor.push(piece)).join("") + redactor.end();
    };
    expect(inPieces(text.split(""))).toBe(expected);
    for (let at = 1; at < text.length; at++) expect(inPieces([text.slice(0, at), text.slice(at)])).toBe(expected);
  });

  test("other spellings stay where nothing is found, and a pattern may name them", async () => {
    const text = "ｗｉｄｅ, 𝐛𝐨𝐥𝐝, in\u200bvisible, 😀, ４２";
    expect(await redacted(text)).toBe(text);
    const patterns = compilePatterns([
      { name: "wide", regex: "ｗｉ" },
      { name: "unseen", regex: "n\u200bv" },
    ]);
    expect(await redacted(text, patterns)).toBe("[wide]ｄｅ, 𝐛𝐨𝐥𝐝, i[unseen]isible, 😀, ４２");
  });

  test("check digits notice every single wrong digit", () => {
    const wrong = (text: string, check: (text: string) => boolean) =>
      [...text].flatMap((old, at) =>
        [..."0123456789"].filter(
          (digit) => /\d/.test(old) && digit !== old && check(text.slice(0, at) + digit + text.slice(at + 1)),
        ),
      );
    for (const iban of ["DE89370400440532013000", "GB82WEST12345698765432", "FR1420041010050500013M02606"]) {
      expect([isIban(iban), wrong(iban, isIban)]).toEqual([true, []]);
    }
    for (const card of ["4111111111111111", "5500000000000004", "340000000000009", "6011000000000004"]) {
      expect([isCardNumber(card), wrong(card, isCardNumber)]).toEqual([true, []]);
    }
  });
});

test("what lies in several texts is replaced where it begins, whatever the cuts", async () => {
  const names: string[] = [];
  const parts = ["to jo", "hn@exa", "mple.com", ", and 10.0.", "0.255"];
  expect(await redactTexts(PERSONAL, parts, (name) => names.push(name))).toEqual([
    "to [email]",
    " ",
    " ",
    ", and [ip]",
    " ",
  ]);
  expect(names).toEqual(["email", "ip"]);
  expect(await redactTexts(PERSONAL, ["a", "", "b"], () => {})).toEqual(["a", "", "b"]);
  const text = "x john@example.com y 10.0.0.255 z";
  for (let at = 1; at < text.length; at++) {
    const cut = await redactTexts(PERSONAL, [text.slice(0, at), text.slice(at)], () => {});
    expect(cut.join("").replaceAll(/ +$/g, "")).toBe("x [email] y [ip] z");
  }
});

/** Pieces of a text at any cuts. */
function pieces(text: string, cuts: readonly number[]): readonly string[] {
  const at = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => text.slice(from, at[i] ?? text.length));
}

describe("a text in pieces", () => {
  const part = fc.constantFrom(
    "john@example.com",
    "DE89 3704 0044 0532 0130 00",
    "4111 1111 1111 1111",
    "10.0.0.1",
    "2001:db8::1",
    "+49 170 1234567",
    " ",
    ". ",
    "word",
    "7",
    "é",
    "😀",
    "𝐚𝐧𝐧@exam\u200bple.com",
    "\ud835",
    "a".repeat(600),
  );
  const texts = fc.array(part, { maxLength: 12 }).map((parts) => parts.join(""));

  test("gives the same, wherever it is cut, and nothing of a match before it is known", async () => {
    await fc.assert(
      fc.asyncProperty(texts, fc.array(fc.nat(2000), { maxLength: 20 }), async (text, cuts) => {
        const whole = await redacted(text);
        const redactor = new TextRedactor(PERSONAL, () => {});
        let out = "";
        for (const piece of pieces(text, cuts)) {
          out += redactor.push(piece);
          expect(whole.startsWith(out)).toBe(true);
        }
        expect(out + redactor.end()).toBe(whole);
      }),
      { numRuns: 300 },
    );
  });

  test("is held back only where a match may have begun", () => {
    const redactor = new TextRedactor(PERSONAL, () => {});
    expect(redactor.push("Hello, dear ")).toBe("Hello, dear ");
    expect(redactor.push("jo")).toBe("");
    expect(redactor.push("hn@example.com")).toBe("");
    expect(redactor.push(", hello")).toBe("[email], ");
    expect(redactor.end()).toBe("hello");
  });

  test("is held back by a bounded length, whatever it is", () => {
    const units = fc.constantFrom("a", "1", "@", ".", " ", "-", ":", "a@b.co", "1.1.1.1");
    fc.assert(
      fc.property(fc.array(units, { minLength: 3, maxLength: 3 }), (cycle) => {
        const redactor = new TextRedactor(PERSONAL, () => {});
        for (let i = 0; i < 2000; i++) {
          redactor.push(cycle[i % 3]!);
          expect(redactor.numHeld).toBeLessThanOrEqual(2 * MAX_MATCH_LENGTH);
        }
        expect(redactor.numSteps).toBeLessThan(2000 * 7 * 200);
      }),
      { numRuns: cases(25, 100) },
    );
  });

  test("a match longer than the window is still hidden at its end", async () => {
    const text = `${"a".repeat(3000)}@example.com`;
    const out = await redacted(text);
    expect(out).toMatch(/^a+\[email\]$/);
    expect(out).not.toContain("@");
  });
});

describe("patterns of the operator", () => {
  const of = (...sources: readonly PatternSource[]) => compilePatterns(sources);

  test("cover every match that JavaScript finds, for any pattern and text", async () => {
    const atom = fc.constantFrom("a", "b", "[ab]", "c", "[^a]", "\\d", "a|b", ".");
    const quantifier = fc.constantFrom("", "+", "{2}", "{1,3}", "{2,}");
    const regexes = fc
      .array(fc.tuple(atom, quantifier), { minLength: 1, maxLength: 4 })
      .map((parts) => parts.map(([one, many]) => `(?:${one})${many}`).join(""));
    const text = fc.string({ unit: fc.constantFrom("a", "b", "c", "1"), maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(regexes, text, async (regex, subject) => {
        const out = await redacted(subject, of({ name: "x", regex }));
        const isFound = new RegExp(regex, "u").test(subject);
        expect(out.includes("[x]")).toBe(isFound);
        // No match is left.
        for (const rest of out.split("[x]")) expect(new RegExp(`^(?:${regex})$`, "u").test(rest)).toBe(false);
      }),
      { numRuns: cases(100, 500) },
    );
  });

  test("may ignore case and keep to whole words", async () => {
    const patterns = of(
      { name: "id", regex: "E\\d{3}", isWholeWord: true, ignoresCase: true },
      { name: "é", regex: "É", ignoresCase: true },
    );
    expect(await redacted("E123, e456 XE123 E1234 é", patterns)).toBe("[id], [id] XE123 E1234 [é]");
  });

  test("take linear time where a backtracking engine takes for ever", async () => {
    const patterns = of(
      { name: "a", regex: "(?:a+)+b" },
      { name: "b", regex: "(?:a|a)*c" },
      { name: "c", regex: "(?:.*.*)=.*;" },
    );
    const startMs = computedMs();
    await redacted("a".repeat(50_000), patterns);
    expect(computedMs() - startMs).toBeLessThan(5000);
  });

  test("leave the event loop free", async () => {
    const patterns = of({ name: "a", regex: "(?:[ab]{1,20}){1,20}c" });
    // Processor time: other programs may run meanwhile.
    let longestMs = 0;
    let numTurns = 0;
    let last = process.cpuUsage();
    const timer = setInterval(() => {
      const { user, system } = process.cpuUsage(last);
      longestMs = Math.max(longestMs, (user + system) / 1000);
      last = process.cpuUsage();
    }, 1);
    const countTurn = () => {
      numTurns++;
      next = setImmediate(countTurn);
    };
    let next = setImmediate(countTurn);
    await redacted("ab".repeat(4000), patterns);
    clearInterval(timer);
    clearImmediate(next);
    expect(numTurns).toBeGreaterThan(10);
    expect(longestMs).toBeLessThan(500);
  });

  test.each(["a*", "", "(?=a)b", "^a", "a$", "(a)\\1", "a{2000}{3}", "(", "\\bx"])("%j is refused", (regex) => {
    expect(() => of({ name: "x", regex })).toThrow(/expected/);
  });
});
