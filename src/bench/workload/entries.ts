/** A user's own prompts, a trace of requests, or recorded requests, from a file of JSON lines. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { gotOf } from "../../core/read-text.js";
import { type RecordedRequest, recordedRequest } from "../../core/recorded-request.js";
import type { Entry } from "./workload.js";

const message = z.object({ role: z.enum(["system", "user", "assistant"]), content: z.string() });

/**
 * Fields as in published traces: input_length, output_length, hash_ids of 512 tokens each, timestamp in milliseconds.
 */
const line = z
  .object({
    prompt: z.union([z.string().min(1), z.array(z.int().min(0)).min(1)]).optional(),
    messages: z.array(message).min(1).optional(),
    input_length: z.int().min(1).optional(),
    hash_ids: z.array(z.int().min(0)).optional(),
    max_tokens: z.int().min(1).optional(),
    output_length: z.int().min(1).optional(),
    timestamp: z.number().min(0).optional(),
  })
  .refine(
    ({ prompt, messages, input_length: length }) =>
      [prompt, messages, length].filter((each) => each !== undefined).length === 1,
    "expected one of prompt, messages and input_length",
  );

/**
 * @param defaultTokens length of answers for lines without one.
 * @returns entries ordered by time; throws file_unreadable
 */
export function readEntries(path: string, defaultTokens: number): Entry[] {
  const refuse = (got: string, cause?: unknown) =>
    new MillraceError("file_unreadable", `expected a JSON object with a prompt on each line of ${path}, got ${got}`, {
      hint: 'check the path; a line is such as {"prompt": "Once upon a time", "max_tokens": 64}, or one that a gateway recorded',
      cause,
    });
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw refuse(gotOf(cause), cause);
  }
  const entries = text.split("\n").flatMap((source, index): Entry[] => {
    if (source.trim() === "") return [];
    try {
      const value: unknown = JSON.parse(source);
      const recorded = recordedRequest(value);
      if (recorded !== undefined) return [recordedEntry(recorded, defaultTokens)];
      const { prompt, messages, input_length, hash_ids, max_tokens, output_length, timestamp } = line.parse(value);
      const outputTokens = max_tokens ?? output_length ?? defaultTokens;
      return [{ prompt, messages, promptTokens: input_length, pieces: hash_ids, outputTokens, atMs: timestamp }];
    } catch (cause) {
      const what = cause instanceof z.ZodError ? z.prettifyError(cause) : String(cause);
      throw refuse(`on line ${index + 1}: ${what}`, cause);
    }
  });
  if (entries.length === 0) throw refuse("an empty file");
  const startMs = entries.reduce((least, { atMs = 0 }) => Math.min(least, atMs), Number.POSITIVE_INFINITY);
  return entries
    .map((entry) => (entry.atMs === undefined ? entry : { ...entry, atMs: entry.atMs - startMs }))
    .sort((a, b) => (a.atMs ?? 0) - (b.atMs ?? 0));
}

/** Fields that a measurement sets itself: it has its own model, one answer, and a stream. */
const LEFT_OUT = ["model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "timeout", "store"];

const recordSchema = z.object({
  request: z.looseObject({
    messages: z.array(z.looseObject({ role: z.string() })).min(1),
    max_tokens: z.int().min(1).nullish(),
    max_completion_tokens: z.int().min(1).nullish(),
  }),
  response: z.looseObject({ usage: z.looseObject({ completion_tokens: z.int().min(0) }).nullish() }).optional(),
});

/** The answer gets at most as many tokens as the recorded one. */
function recordedEntry(recorded: RecordedRequest, defaultTokens: number): Entry {
  const { request, response } = recordSchema.parse(recorded);
  const own = request.max_completion_tokens ?? request.max_tokens ?? defaultTokens;
  const outputTokens = Math.max(1, response?.usage?.completion_tokens ?? own);
  const chat = Object.fromEntries(Object.entries(request).filter(([name]) => !LEFT_OUT.includes(name)));
  return { chat, outputTokens, atMs: recorded.timestamp };
}
