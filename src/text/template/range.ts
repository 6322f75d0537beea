/** Python's range() for templates. */

/** No prompt needs a longer range, and a template could fill the memory with one. */
const MAX_RANGE_LENGTH = 100_000;

/** Python's range(stop) and range(start, stop, step). */
export function range(first: number, second?: number, step = 1): number[] {
  for (const given of [first, second ?? 0, step]) {
    // A list would be printed to convert it to a number, however large it is.
    if (typeof given === "object" && !((given as unknown) instanceof Number)) {
      throw new Error("expected numbers in range(), got another value");
    }
  }
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!(length <= MAX_RANGE_LENGTH)) throw new Error(`range() of ${length} numbers is too long`);
  return Array.from({ length }, (_, i) => start + i * step);
}
