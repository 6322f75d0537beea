/** Scores functions by calling them: TypeScript in a sandbox thread, Python in a process of its own. */
import { isDeepStrictEqual } from "node:util";
import type { CodeCheck } from "./check.js";
import { unfence } from "./fenced.js";
import { hasPython, runPython } from "./run-python.js";
import { runTypeScript } from "./run-typescript.js";
import type { CallResult, Score } from "./score.js";
import { scoreExact } from "./text-scores.js";

export async function scoreCode(check: CodeCheck, expected: string, answer: string): Promise<Score> {
  if (check.language === "python" && !hasPython()) {
    const score = scoreExact(expected, answer);
    return { ...score, note: "python3 not found: compared as text" };
  }
  const code = unfence(answer);
  const args = check.calls.map((call) => call.args);
  const run = check.language === "python" ? runPython : runTypeScript;
  const results = await run(code, check.name, args);
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
  return [`expected ${JSON.stringify(expected)}, got ${JSON.stringify(result.value)}`];
}
