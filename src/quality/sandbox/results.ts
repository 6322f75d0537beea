/** Results of generated code. The code itself can write the text, so only its values are trusted. */
import { z } from "zod";

const callResultSchema = z.union([z.strictObject({ value: z.unknown() }), z.strictObject({ problem: z.string() })]);
const runResultSchema = z.union([
  z.array(callResultSchema).readonly(),
  z.strictObject({ problem: z.string() }).readonly(),
]);

/** Result of one call of a generated function. */
export type CallResult = { readonly value: unknown } | { readonly problem: string };

/** Results of all calls, or the reason why there are none. */
export type RunResult = readonly CallResult[] | { readonly problem: string };

export interface SandboxJob {
  readonly code: string;
  /** Name of the function to call. */
  readonly name: string;
  /** Arguments of each call. Expected results stay outside, where no answer can read them. */
  readonly calls: readonly (readonly unknown[])[];
}

const MAX_NOTE_LENGTH = 300;

/**
 * Reads the results of `numCalls` calls. The shape is checked strictly: a result without a value would equal a missing
 * expectation, and surplus results would count as right.
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
    // Python's negative zero is 0.
    const json: unknown = JSON.parse(text, (_, value) => (value === 0 ? 0 : value));
    const parsed = runResultSchema.safeParse(json);
    const results = parsed.success ? parsed.data : undefined;
    // For zod, a missing key is an unknown value too.
    if (Array.isArray(json) && !json.every((result) => "value" in result || "problem" in result)) return undefined;
    return results;
  } catch {
    return undefined;
  }
}
