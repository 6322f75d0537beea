/** When a hook looks: at what a client sends, or at what it gets. */
export const STAGES = ["request", "answer"] as const;
export type Stage = (typeof STAGES)[number];
