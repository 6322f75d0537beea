import { describe, expect, it } from "vitest";
import { stripTypes } from "./strip-types.js";

describe("stripTypes", () => {
  const CASES: readonly (readonly [what: string, typed: string, plain: string])[] = [
    [
      "parameters and result",
      "function f(a: number, b: string[]): number {\n  return a;\n}",
      "function f(a, b) {\n  return a;\n}",
    ],
    [
      "an optional parameter and a default",
      "function f(a?: number, b: number = 2) {}",
      "function f(a, b = 2) {}".replace("b =", "b="),
    ],
    ["a variable", "const list: number[] = [];", "const list = [];"],
    ["a variable without a value", "let x: number;", "let x;"],
    ["an arrow function", "const f = (a: number): string => String(a);", "const f = (a) => String(a);"],
    ["all variables of a declaration", "let lo: number = 0, hi: number = f(1, 2);", "let lo = 0, hi = f(1, 2);"],
    ["a result with commas", "const f = (a: number): [number, number] => [a, a];", "const f = (a) => [a, a];"],
    ["a result with type arguments", "const f = (): Map<string, number> => g();", "const f = () => g();"],
    ["a result of braces", "const f = (a: A): { b: number } => ({ b: a.b });", "const f = (a) => ({ b: a.b });"],
    [
      "arguments of types",
      "const m = new Map<string, number[]>(), s = new Set<number | string>();",
      "const m = new Map(), s = new Set();",
    ],
    ["generics", "function f<T>(a: T): Array<T> { return [a]; }", "function f(a) { return [a]; }"],
    [
      "a type of its own braces",
      "function f(a: { b: number; c: string }): { d: number } { return { d: a.b }; }",
      "function f(a) { return { d: a.b }; }",
    ],
    [
      "a function type",
      "function f(g: (a: number) => number): number { return g(1); }",
      "function f(g) { return g(1); }",
    ],
    ["as", "const a = (b as number) + 1;", "const a = (b ) + 1;"],
    ["export", "export function f(): void {}", " function f() {}"],
    ["an interface", "interface A { b: number; }\nconst c = 1;", "\nconst c = 1;"],
    ["a type alias", "type A = { b: number } | string;\nconst c = 1;", "\nconst c = 1;"],
  ];
  it.each(CASES)("takes out %s", (_, typed, plain) => {
    expect(stripTypes(typed)).toBe(plain);
  });

  const KEPT = [
    "const a = { b: 1, c: d ? e : f };",
    "return a ? b : c;",
    "return n > 0 ? g(n) : xs.map(x => x * 2);",
    "const a = n ? (b) : f(c => d), e = 1;",
    "if (a<b||c>(d)) return i < n ? f(i) : n > (m);",
    'switch (a) { case "b": return 1; default: return 2; }',
    "const s = `a: $\u007bb ? 1 : 2}`; // x: number",
    'const t = "as number";',
    "for (const a of b) {}",
    "const as = 1; f(as);",
    "values.map((value) => (total += value));",
    "values.sort((p, q) => p - q);",
    "/* function f(a: number) */ a < b && c > d;",
  ];
  it.each(KEPT)("leaves %s", (code) => {
    expect(stripTypes(code)).toBe(code);
  });

  it("ends on anything", () => {
    for (const code of [
      "function",
      "function f(",
      "const a:",
      "(",
      "type A",
      "interface A {",
      "let x: {{{",
      "`$\u007b",
      "function f<",
    ]) {
      expect(typeof stripTypes(code)).toBe("string");
    }
  });
});
