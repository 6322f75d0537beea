/**
 * Pairs of answers with a person's verdict, for calibrating a judge. They come from outside, so this module validates
 * them.
 */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { readText } from "../../core/read-text.js";
import { problemText } from "../../core/schema-problem.js";
import { messageSchema } from "../ask.js";
import type { HumanVerdict } from "./calibration.js";

const lineSchema = z.object({
  prompt: z.union([z.string(), z.array(messageSchema).min(1).readonly()]),
  answers: z.tuple([z.string(), z.string()]),
  human: z.enum(["first", "second", "tie"]),
});

const VERDICTS: Readonly<Record<z.infer<typeof lineSchema>["human"], HumanVerdict>> = {
  first: "won",
  second: "lost",
  tie: "tied",
};

export interface Label {
  readonly prompt: readonly z.infer<typeof messageSchema>[];
  readonly answers: readonly [first: string, second: string];
  /** The people's verdict on the first answer. */
  readonly human: HumanVerdict;
}

/** Throws file_unreadable, and invalid_option with the number of the line. */
export function readLabels(path: string): Label[] {
  const lines = [...readText(path, "labels").split("\n").entries()].filter(([, line]) => line.trim() !== "");
  if (lines.length === 0) throw refusal(path, "no line");
  return lines.map(([index, line]) => readLabel(line, `${path}, line ${index + 1}`));
}

function readLabel(line: string, place: string): Label {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw refusal(place, `invalid JSON: ${(cause as Error).message}`);
  }
  const parsed = lineSchema.safeParse(value);
  if (!parsed.success) {
    throw refusal(place, `another line (${problemText(parsed.error, value)})`);
  }
  const { prompt, answers, human } = parsed.data;
  const messages = typeof prompt === "string" ? [{ role: "user" as const, content: prompt }] : prompt;
  return { prompt: messages, answers, human: VERDICTS[human] };
}

const refusal = (place: string, got: string): MillraceError =>
  new MillraceError("invalid_option", `expected a person's verdict on two answers in ${place}, got ${got}`, {
    hint: 'a line is {"prompt": "…" or messages, "answers": ["…", "…"], "human": "first", "second" or "tie"}',
  });
