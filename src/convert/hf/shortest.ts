/** Shortens decimal numbers. */

/**
 * The shortest decimal that equals this number as an f32: GGUF stores f32, and 1e-5 should not become
 * 0.000009999999747378752.
 */
export function shortest(value: number): number {
  const rounded = Math.fround(value);
  for (let digits = 1; digits < 9; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (Math.fround(candidate) === rounded) return candidate;
  }
  return value;
}
