/** Feedback of clients on answers: POST /v1/feedback. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { firstProblem } from "../../core/schema-problem.js";

const MAX_CORRECTION = 16 * 1024;
const MAX_COMMENT = 4 * 1024;

/** Without control characters except tabs and line breaks: a correction becomes an evaluation's expected answer. */
const textUpTo = (length: number) =>
  z
    .string()
    .min(1)
    .max(length)
    .regex(/^(?:[\t\n\r]|\P{Cc})*$/u, "expected text without control characters, got one");

const body = z.strictObject({
  request_id: z.string().min(1).max(200),
  rating: z.enum(["up", "down"]).optional(),
  score: z.number().min(-1).max(1).optional(),
  correction: textUpTo(MAX_CORRECTION).optional(),
  comment: textUpTo(MAX_COMMENT).optional(),
});

interface GivenFeedback {
  readonly requestId: string;
  /** From −1 to 1. A correction alone means a wrong answer. */
  readonly score: number;
  readonly correction: string | undefined;
  readonly comment: string | undefined;
}

/** Throws invalid_parameter, which names the first wrong field. */
export function readFeedback(given: unknown): GivenFeedback {
  const parsed = body.safeParse(given);
  if (!parsed.success) {
    const { param: path, reason } = firstProblem(parsed.error, given);
    const param = path === "" ? "body" : path;
    throw new MillraceError("invalid_parameter", `${param}: ${reason}`, {
      param,
      hint: 'a body is {"request_id", "rating": "up" or "down", or "score" in [-1, 1], "correction", "comment"}',
    });
  }
  const { request_id: requestId, rating, score, correction, comment } = parsed.data;
  if (rating !== undefined && score !== undefined) {
    throw new MillraceError("invalid_parameter", "expected rating or score, got both", { param: "score" });
  }
  const byRating = rating === undefined ? undefined : rating === "up" ? 1 : -1;
  const said = score ?? byRating ?? (correction === undefined ? undefined : -1);
  if (said === undefined) {
    throw new MillraceError("invalid_parameter", "expected rating, score or correction, got none", { param: "rating" });
  }
  return { requestId, score: said, correction, comment };
}
