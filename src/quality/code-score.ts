/** Scores functions by calling them in the jail of `sandbox/`. The expected results stay outside. */
import { isDeepStrictEqual } from "node:util";
import type { Check, CodeCheck } from "./check.js";
import { unfence } from "./fenced.js";
import type { CallResult } from "./sandbox/results.js";
import { type CodeLanguage, hasPython, requireConfinement, runCode } from "./sandbox/run-code.js";
import type { Score } from "./score.js";
import { scoreExact } from "./text-scores.js";

const MAX_SHOWN = 200;

/** For users who allow unconfined code. */
export const UNCONFINED_WARNING = "warning: generated code runs unconfined and can do everything that you can";

/**
 * Checks the confinement before the model answers many prompts.
 *
 * @returns whether all code will be confined; false if the user allows unconfined code
 * @throws MillraceError confinement_missing
 */
export async function requireConfinementFor(checks: readonly (Check | undefined)[]): Promise<boolean> {
  const languages = new Set(checks.map(languageOf));
  const isTypeScriptConfined = !languages.has("typescript") || (await requireConfinement("typescript"));
  const isPythonConfined = !languages.has("python") || !hasPython() || (await requireConfinement("python"));
  return isTypeScriptConfined && isPythonConfined;
}

/** Queries run in Python, which includes SQLite. */
function languageOf(check: Check | undefined): CodeLanguage | undefined {
  if (check?.kind === "sql") return "python";
  return check?.kind === "code" ? check.language : undefined;
}

export async function scoreCode(check: CodeCheck, expected: string, answer: string): Promise<Score> {
  if (check.language === "python" && !hasPython()) {
    const score = scoreExact(expected, answer);
    return { ...score, note: "python3 not found: compared as text" };
  }
  const code = unfence(answer);
  const args = check.calls.map((call) => call.args);
  const results = await runCode(check.language, { code, name: check.name, calls: args });
  if ("problem" in results) return { score: 0, exact: false, note: results.problem };
  const problems = results.flatMap((result, index) => problemOf(result, check.calls[index]?.expect));
  const numRight = results.length - problems.length;
  return {
    score: numRight / check.calls.length,
    exact: numRight === check.calls.length,
    ...(problems[0] === undefined ? {} : { note: problems[0] }),
  };
}

function problemOf(result: CallResult, expected: unknown): string[] {
  if ("problem" in result) return [result.problem];
  if (isDeepStrictEqual(result.value, expected)) return [];
  return [`expected ${shown(expected)}, got ${shown(result.value)}`];
}

const shown = (value: unknown): string => (JSON.stringify(value) ?? "nothing").slice(0, MAX_SHOWN);
