/** Reasons to refuse a schema or a part of it. */
import { MillraceError } from "../../core/errors.js";

/**
 * No value satisfies a schema. An optional part with such a schema is left out; for a required part or the root, the
 * whole schema is refused.
 */
export class NoValue extends Error {
  constructor(
    readonly at: string,
    readonly problem: string,
  ) {
    super(problem);
  }
}

/** @param param the request's field @param at the JSON pointer of the faulty part */
export function schemaError(param: string, at: string, problem: string): MillraceError {
  return new MillraceError("invalid_parameter", `${param}: at ${shorten(at)}: ${shorten(problem)}`, {
    param,
    hint: "docs/reference/http-api.md lists what of JSON Schema can be guaranteed.",
  });
}

/** Undefined if no value satisfies the schema. */
export function possible<T>(write: () => T): T | undefined {
  try {
    return write();
  } catch (thrown) {
    if (thrown instanceof NoValue) return undefined;
    throw thrown;
  }
}

/** Names come from the client and are sent back, so huge ones are truncated. */
function shorten(text: string): string {
  return text.length <= 400 ? text : `${text.slice(0, 397)}...`;
}
