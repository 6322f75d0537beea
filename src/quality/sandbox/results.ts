/** What running generated code comes to. Its text is written by that code, or can be, so it is believed in no respect but its values. */
import { z } from "zod";

const callResultSchema = z.union([z.strictObject({ value: z.unknown() }), z.strictObject({ problem: z.string() })]);
const runResultSchema = z.union([
  z.array(callResultSchema).readonly(),
  z.strictObject({ problem: z.string() }).readonly(),
]);

/** What one call of a generated function came to. */
export type CallResult = { readonly value: unknown } | { readonly problem: string };

/** All calls, or why none was made. */
export type RunResult = readonly CallResult[] | { readonly problem: string };

export interface SandboxJob {
  readonly code: string;
  /** Of the function to call. */
  readonly name: string;
  /** Each the arguments of one call. What is expected of it stays outside, so no answer can look it up. */
  readonly calls: readonly (readonly unknown[])[];
}

const MAX_NOTE_LENGTH = 300;

/**
 * Reads the results of `numCalls` calls. A result without a value would equal an expectation that was left out, and results too many would
 * count as right, so the shape is held to the letter.
 */
export function readResults(text: string, numCalls: number): RunResult {
  const results = parse(text);
  if (results === undefined) return { problem: "the code ended without a result" };
  if ("problem" in results) return { problem: results.problem.slice(0, MAX_NOTE_LENGTH) };
  if (results.length !== numCalls) return { problem: "the code wrote results of its own" };
  return results.map((result) =>
    "problem" in result ? { problem: result.problem.slice(0, MAX_NOTE_LENGTH) } : { value: result.value },
  );
}

function parse(text: string): z.infer<typeof runResultSchema> | undefined {
  try {
    // Python writes its negative zero, which is one there.
    const json: unknown = JSON.parse(text, (_, value) => (value === 0 ? 0 : value));
    const parsed = runResultSchema.safeParse(json);
    const results = parsed.success ? parsed.data : undefined;
    // To zod, a key that is missing is an unknown value too.
    if (Array.isArray(json) && !json.every((result) => "value" in result || "problem" in result)) return undefined;
    return results;
  } catch {
    return undefined;
  }
}
