/**
 * The shape of all lists in our APIs: the rows are in `data`. Further fields, such as the next page, stand beside it.
 */
export const listBody = <T>(data: readonly T[]) => ({ object: "list" as const, data: [...data] });
