/** Scores an answer by rules that a program can check, as in IFEval (Zhou et al. 2023): its length, form and words. */
import { z } from "zod";
import { parseJson } from "./fenced.js";
import type { Score } from "./score.js";

const count = z.int().min(0);
const range = { min: count.optional(), max: count.optional() };
const text = z.string().min(1);

export const ruleSchema = z.discriminatedUnion("rule", [
  z.strictObject({ rule: z.literal("words"), ...range }),
  /** Lines with text. */
  z.strictObject({ rule: z.literal("lines"), ...range }),
  /** Lines that begin with a hyphen, an asterisk or a bullet. */
  z.strictObject({ rule: z.literal("bullets"), ...range }),
  z.strictObject({ rule: z.literal("lowercase") }),
  z.strictObject({ rule: z.literal("uppercase") }),
  z.strictObject({ rule: z.literal("json") }),
  z.strictObject({ rule: z.literal("begins"), text }),
  z.strictObject({ rule: z.literal("ends"), text }),
  /** Number of occurrences of a text, in any letter case. `max: 0`: never. */
  z.strictObject({ rule: z.literal("contains"), text, ...range }),
]);

export type Rule = z.infer<typeof ruleSchema>;

interface Range {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

/** The share of the rules that the answer follows. */
export function scoreRules(rules: readonly Rule[], answer: string): Score {
  if (answer.trim() === "") return { score: 0, exact: false, note: "expected an answer, got an empty one" };
  const broken = rules.flatMap((rule) => faultOf(rule, answer.trim()) ?? []);
  const score = 1 - broken.length / rules.length;
  return { score, exact: broken.length === 0, ...(broken.length === 0 ? {} : { note: broken.join("; ") }) };
}

/** Undefined: the answer follows the rule. */
function faultOf(rule: Rule, answer: string): string | undefined {
  switch (rule.rule) {
    case "words":
      return outside(rule, answer.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length, "words");
    case "lines":
      return outside(rule, linesOf(answer).length, "lines");
    case "bullets":
      return outside(rule, linesOf(answer).filter((line) => /^\s*[-*•]\s/.test(line)).length, "bullets");
    case "lowercase":
      return answer === answer.toLowerCase() ? undefined : "expected lower case";
    case "uppercase":
      return answer === answer.toUpperCase() ? undefined : "expected upper case";
    case "json":
      return parseJson(answer) === undefined ? "expected JSON" : undefined;
    case "begins":
      return answer.startsWith(rule.text) ? undefined : `expected ${JSON.stringify(rule.text)} at the beginning`;
    case "ends":
      return answer.endsWith(rule.text) ? undefined : `expected ${JSON.stringify(rule.text)} at the end`;
    case "contains":
      return outside(rule, answer.toLowerCase().split(rule.text.toLowerCase()).length - 1, JSON.stringify(rule.text));
  }
}

const linesOf = (answer: string): string[] => answer.split("\n").filter((line) => line.trim() !== "");

/** A missing bound does not limit; without both, at least one is required. */
function outside({ min, max }: Range, got: number, what: string): string | undefined {
  const least = min ?? (max === undefined ? 1 : 0);
  if (got < least) return `expected at least ${least} ${what}, got ${got}`;
  return max !== undefined && got > max ? `expected at most ${max} ${what}, got ${got}` : undefined;
}
