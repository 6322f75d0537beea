/** Parses templates within limits, because they come with models from strangers. */
import { parse, tokenize } from "@huggingface/jinja";
import { withPythonEscapes } from "./python-escapes.js";

/** In UTF-16 units: fourteen times the longest known published template. */
const MOST_LENGTH = 262_144;
/** The library searches for a tag at each position of white space, which takes quadratic time. */
const MOST_WHITE_SPACE = 1000;
const MOST_REASON_LENGTH = 500;

/** Throws Error for a template that is malformed or too long. */
export function parseTemplate(source: string, options: Parameters<typeof tokenize>[1] = {}): ReturnType<typeof parse> {
  if (source.length > MOST_LENGTH) {
    throw new Error(`expected at most ${MOST_LENGTH} characters, got ${source.length}`);
  }
  for (const { 0: run, index } of source.matchAll(/\s+/g)) {
    if (run.length > MOST_WHITE_SPACE) {
      throw new Error(
        `expected white space of at most ${MOST_WHITE_SPACE} characters, got ${run.length} from ${index} on`,
      );
    }
  }
  return parse(tokenize(withPythonEscapes(source), options));
}

/**
 * The reason of a parsing or rendering failure, in a bounded text: templates write some of these messages themselves.
 */
export function reasonOf(thrown: unknown): string {
  const isDeep = thrown instanceof RangeError && /call stack/.test(thrown.message);
  const reason = isDeep ? "it nests too deeply" : thrown instanceof Error ? thrown.message : String(thrown);
  return reason.length > MOST_REASON_LENGTH ? `${reason.slice(0, MOST_REASON_LENGTH)}…` : reason;
}
