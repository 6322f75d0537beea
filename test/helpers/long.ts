/**
 * Tests that take a part of their cases in `npm test`, and all of them in `npm run test:long`, which finds their files
 * by the import of this one.
 */

/** A test of the long run alone says so in its name: `test.runIf(isLongRun)("… (needs npm run test:long)", …)`. */
export const isLongRun = process.env.MILLRACE_LONG === "1";

/** How many cases a test takes: `few` in `npm test`. */
export const cases = (few: number, all: number): number => (isLongRun ? all : few);

/** So many of a list in `npm test`, evenly spread from its first to its last: neighbours are of a kind. */
export function someOf<T>(list: readonly T[], few: number): readonly T[] {
  if (isLongRun || list.length <= few) return list;
  const step = few === 1 ? 0 : (list.length - 1) / (few - 1);
  return Array.from({ length: few }, (_, i) => list[Math.round(i * step)]!);
}
