/** Scores an answer by its check. */
import type { Asked } from "./ask.js";
import { scoreCalls } from "./call-score.js";
import type { Check } from "./check.js";
import { scoreCode } from "./code-score.js";
import { scoreFaults } from "./fault-score.js";
import { scoreJson } from "./json-score.js";
import { scoreRules } from "./rule-score.js";
import type { Score } from "./score.js";
import { scoreSql } from "./sql-score.js";
import {
  scoreExact,
  scoreIncludes,
  scoreList,
  scoreMentions,
  scoreNumber,
  scoreOverlap,
  scorePhrase,
  scoreRegex,
} from "./text-scores.js";

/**
 * Depends only on its arguments (and, for Python, on python3). Only code and SQL take time, because they run.
 *
 * @param expected the right answer, or one of them
 * @param asked the prompt, which some checks compare with the answer, and the reason why the answer ended
 */
export async function scoreAnswer(
  check: Check,
  expected: string,
  answer: string,
  asked: Asked = { prompt: [], end: "stop" },
): Promise<Score> {
  switch (check.kind) {
    case "none":
    case "judge":
      return { score: 1, exact: true, note: "nothing to score" };
    case "exact":
      return scoreExact(expected, answer);
    case "phrase":
      return scorePhrase(expected, answer);
    case "includes":
      return scoreIncludes(check, answer);
    case "regex":
      return scoreRegex(check, answer);
    case "number":
      return scoreNumber(check, answer);
    case "json":
      return scoreJson(expected, answer);
    case "list":
      return scoreList(check, answer);
    case "mentions":
      return scoreMentions(check, answer);
    case "overlap":
      return scoreOverlap(check, expected, answer);
    case "follows":
      return scoreRules(check.rules, answer);
    case "without":
      return scoreFaults(check, asked, answer);
    case "calls":
      return scoreCalls(check, asked.calls ?? []);
    case "code":
      return scoreCode(check, expected, answer);
    case "sql":
      return scoreSql(check, expected, answer);
  }
}
