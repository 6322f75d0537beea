/** The form of all lists in our APIs: `data` has the rows. Further fields, such as the next page, are beside it. */
export const listBody = <T>(data: readonly T[]) => ({ object: "list" as const, data: [...data] });
