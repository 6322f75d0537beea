/** The first of several names, and how many more there are. @example shownNames(["a", "b", "c"]) // "a and 2 others" */
export function shownNames([first = "none", ...others]: readonly string[]): string {
  return others.length === 0 ? first : `${first} and ${others.length} others`;
}
