import { MillraceError } from "../../core/errors.js";

/** Refuses a request's field. @param text "expected …, got …" */
export const invalidParameter = (param: string, text: string): MillraceError =>
  new MillraceError("invalid_parameter", `${param}: ${text}`, { param });
