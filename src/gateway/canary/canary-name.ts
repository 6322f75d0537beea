/** Names of canaries, which no client may send and no other model may have. */

const END = "~canary";

/** Name of a model's canary. @example canaryName("chat") // "chat~canary" */
export const canaryName = (model: string): string => `${model}${END}`;

export const isCanaryName = (name: string): boolean => name.endsWith(END);
