/**
 * The work of the checks' thread on one request and its answer: reads both, judges them, and removes personal data from
 * the kept texts.
 */
import { compilePatterns, type PatternSet, type PatternSource } from "../hooks/pattern-set.js";
import { PERSONAL_DATA, personalDataPatterns } from "../hooks/personal-data.js";
import { redactTexts } from "../hooks/redactor.js";
import { judgeSample, type Verdicts } from "./checks/checks.js";
import type { SampleMessage } from "./checks/sample.js";
import { readSample } from "./read-sample.js";

/** A pattern of the operator's guardrails, without the parts that cannot go to a thread. */
export type PlainPattern = Pick<PatternSource, "name" | "regex" | "isWholeWord" | "ignoresCase">;

export type CheckJob =
  | {
      readonly kind: "sample";
      readonly path: string;
      /** JSON of the request. */
      readonly request: Uint8Array;
      readonly answer: Uint8Array;
      readonly isEventStream: boolean;
      /** Whether the texts come back, redacted. */
      readonly keepsText: boolean;
    }
  /** Texts of a client to be redacted. */
  | { readonly kind: "texts"; readonly texts: readonly string[] };

/** A prompt and its answer, redacted by the patterns. */
export interface KeptText {
  readonly messages: readonly SampleMessage[];
  readonly answer: string;
  readonly format: unknown;
  /** See `Sample`. */
  readonly isPlain: boolean;
}

interface CheckedSample {
  readonly kind: "sample";
  readonly verdicts: Verdicts;
  /** Undefined: the text is not kept, since it is not wanted or too long. */
  readonly text: KeptText | undefined;
}

export type CheckAnswer =
  | CheckedSample
  /** The request or its answer has no known form. */
  | { readonly kind: "unreadable" }
  | { readonly kind: "texts"; readonly texts: readonly string[] };

/** Texts of one sample together, in UTF-16 units; longer ones are judged and not kept. */
const MAX_KEPT_LENGTH = 128 * 1024;

/**
 * All personal data that guardrails know, even if no guardrail looks for it, and the patterns of the operator's
 * guardrails.
 */
export function privatePatterns(own: readonly PlainPattern[]): PatternSet {
  return compilePatterns([...personalDataPatterns(PERSONAL_DATA), ...own]);
}

export async function runCheckJob(job: CheckJob, patterns: PatternSet): Promise<CheckAnswer> {
  if (job.kind === "texts") return { kind: "texts", texts: await redactEach(patterns, job.texts) };
  const [request, answer] = [Buffer.from(job.request), Buffer.from(job.answer)];
  const sample = readSample(job.path, request, answer, job.isEventStream);
  if (sample === undefined) return { kind: "unreadable" };
  const verdicts = judgeSample(sample);
  // Schemas may have personal data in descriptions, examples and names.
  const format = sample.format === undefined ? "" : JSON.stringify(sample.format);
  const texts = [...sample.messages.map(({ text }) => text), sample.answer.text, format];
  const isShort = texts.reduce((sum, { length }) => sum + length, 0) <= MAX_KEPT_LENGTH;
  if (!job.keepsText || !isShort) return { kind: "sample", verdicts, text: undefined };
  const redacted = await redactEach(patterns, texts);
  const messages = sample.messages.map(({ role }, index) => ({ role, text: redacted[index]! }));
  const [answerText, formatText] = redacted.slice(-2) as [string, string];
  const text = { messages, answer: answerText, format: parsedOrNone(formatText), isPlain: sample.isPlain };
  return { kind: "sample", verdicts, text };
}

/** A label in place of a number makes invalid JSON: such a form is not kept. */
function parsedOrNone(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

async function redactEach(patterns: PatternSet, texts: readonly string[]): Promise<readonly string[]> {
  const redacted: string[] = [];
  for (const text of texts) redacted.push((await redactTexts(patterns, [text], () => {}))[0]!);
  return redacted;
}
