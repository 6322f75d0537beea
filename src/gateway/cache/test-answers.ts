/** Answers for tests of their stores. */
import type { StoredAnswer } from "./stored-answer.js";

export const NOW_MS = Date.now();

export const idOf = (n: number): string => n.toString(16).padStart(64, "0");

export function answerOf(fields: Partial<StoredAnswer> = {}): StoredAnswer {
  return {
    model: "m",
    tenant: "t",
    tags: [],
    createdMs: NOW_MS,
    expiresMs: NOW_MS + 3_600_000,
    status: 200,
    headers: { "content-type": "application/json" },
    isEventStream: false,
    marks: [],
    usage: { fresh: 3, cacheRead: 0, cacheWrite: 0, output: 4, reasoning: 0 },
    check: "",
    body: Buffer.from([0, 255, 10, 13, 1]),
    ...fields,
  };
}
