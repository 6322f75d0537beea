/** How Anthropic's routes answer with errors. */
import { anthropicErrorBody } from "../../core/error-body.js";
import type { Dialect } from "../context.js";

export const ANTHROPIC_DIALECT: Dialect = { errorBody: anthropicErrorBody, requestIdHeader: "Request-Id" };
