/** Reasons for which a schema, or a part of it, is refused. */
import { MillraceError } from "../../core/errors.js";

/** No value is under a schema. Where it need not be there, it is left out; at the root, or where it must be, the schema is refused. */
export class NoValue extends Error {
  constructor(
    readonly at: string,
    readonly problem: string,
  ) {
    super(problem);
  }
}

/** @param param the request's field @param at the part's JSON pointer */
export function schemaError(param: string, at: string, problem: string): MillraceError {
  return new MillraceError("invalid_parameter", `${param}: at ${shorten(at)}: ${shorten(problem)}`, {
    param,
    hint: "docs/reference/http-api.md lists what of JSON Schema can be guaranteed.",
  });
}

/** Undefined where there is no value. */
export function possible<T>(write: () => T): T | undefined {
  try {
    return write();
  } catch (thrown) {
    if (thrown instanceof NoValue) return undefined;
    throw thrown;
  }
}

/** Names come from the client and are sent back, so a huge one is cut. */
function shorten(text: string): string {
  return text.length <= 400 ? text : `${text.slice(0, 397)}...`;
}
