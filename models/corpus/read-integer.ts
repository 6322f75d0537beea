/** @throws RangeError where an argument is no whole number of at least 0 */
export function readInteger(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isSafeInteger(value) || value < 0)
    throw new RangeError(`expected --${name} to be a whole number >= 0, got "${text}"`);
  return value;
}
