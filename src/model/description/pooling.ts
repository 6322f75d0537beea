/** How a prompt's hidden states become one vector: their mean, or the last one. */
export const POOLINGS = ["mean", "last"] as const;
export type Pooling = (typeof POOLINGS)[number];
