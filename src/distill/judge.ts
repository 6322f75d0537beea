/** Judges answers from 0 to 1, by the prompts' own checks or by the user's command. */
import { spawn } from "node:child_process";
import { MillraceError } from "../core/errors.js";
import type { Score } from "../quality/score.js";
import { scoreAnswer } from "../quality/score-answer.js";
import type { Prompt } from "./prompts.js";

interface Judged {
  readonly prompt: Prompt;
  readonly answer: string;
}

export type Verdict = Pick<Score, "score" | "exact">;

/** Returns a verdict for each item, in order. */
export type Judge = (items: readonly Judged[], signal: AbortSignal) => Promise<Verdict[]>;

/** Judges by checks; every prompt needs a check and an expected answer. */
export const judgeByChecks: Judge = (items) =>
  Promise.all(
    items.map(async ({ prompt, answer }): Promise<Verdict> => {
      const { score, exact } = await scoreAnswer(prompt.check!, prompt.expected!, answer, {
        prompt: prompt.messages,
        end: "stop",
      });
      return { score, exact };
    }),
  );

/**
 * Judges by one process for all answers: it reads a line {"prompt": messages, "answer", "expected"?} for each answer on
 * stdin, and writes a line with the score for each answer on stdout, in the same order. Scores may come at any time, so
 * buffered output works.
 *
 * @throws MillraceError scorer_failed
 */
export function judgeByCommand(command: string): Judge {
  return async (items, signal) => {
    const child = spawn(command, { shell: true, stdio: ["pipe", "pipe", "inherit"], signal });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    // A scorer may end without reading all input: its output decides.
    child.stdin.on("error", () => {});
    for (const { prompt, answer } of items) {
      child.stdin.write(`${JSON.stringify({ prompt: prompt.messages, answer, expected: prompt.expected })}\n`);
    }
    child.stdin.end();
    const exitCode = await new Promise<number | string>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, by) => resolve(code ?? by ?? "nothing"));
    });
    const refuse = (expected: string, got: string): MillraceError =>
      new MillraceError("scorer_failed", `expected ${expected} from the scorer, got ${got}`, {
        hint: "the scorer reads a JSON line {prompt, answer} for each answer and writes a line with a number from 0 to 1",
      });
    if (exitCode !== 0) throw refuse("exit code 0", String(exitCode));
    const lines = output.trim() === "" ? [] : output.trim().split("\n");
    if (lines.length !== items.length) throw refuse(`${items.length} lines`, String(lines.length));
    return lines.map((line, index) => {
      const score = line.trim() === "" ? Number.NaN : Number(line);
      if (score >= 0 && score <= 1) return { score, exact: score === 1 };
      throw refuse("a number from 0 to 1", `${JSON.stringify(line)} in line ${index + 1}`);
    });
  };
}
