/** Names of models as patterns: `*` stands for any characters, `?` for one. */

/**
 * Takes at most the product of the two lengths in steps, for every pattern.
 * @example matchesGlob("mill-*", "mill-base") // true
 */
export function matchesGlob(glob: string, text: string): boolean {
  let [g, t] = [0, 0];
  // Where to continue after a mismatch: after the last star, which then takes one character more.
  let [star, taken] = [-1, 0];
  while (t < text.length) {
    if (glob[g] === "*") {
      star = g++;
      taken = t;
    } else if (g < glob.length && (glob[g] === "?" || glob[g] === text[t])) {
      g++;
      t++;
    } else if (star >= 0) {
      g = star + 1;
      t = ++taken;
    } else return false;
  }
  while (glob[g] === "*") g++;
  return g === glob.length;
}

/**
 * @param lists a name must match one pattern of every list; undefined: any name does
 * @returns undefined if every name is allowed
 */
export function modelFilter(
  lists: readonly (readonly string[] | undefined)[],
): ((model: string) => boolean) | undefined {
  const limiting = lists.filter((list) => list !== undefined);
  if (limiting.length === 0) return undefined;
  return (model) => limiting.every((globs) => globs.some((glob) => matchesGlob(glob, model)));
}
