/** The text that a hook reads: a client's request, or its answer. */
export const STAGES = ["request", "answer"] as const;
export type Stage = (typeof STAGES)[number];
