/**
 * The shape of every list of ours: the rows in `data`. What else there is to say, such as the next page, stands beside
 * them.
 */
export const listBody = <T>(data: readonly T[]) => ({ object: "list" as const, data: [...data] });
