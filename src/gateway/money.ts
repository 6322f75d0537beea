/** Money is a whole number of nano-dollars (10⁻⁹ $), so that sums are exact. */

const NANO = 1_000_000_000n;
const DECIMALS = 9;

/** @returns nano-dollars; undefined where the text is no amount of at most nine decimals. @example parseDollars("0.25") // 250000000n */
export function parseDollars(text: string): bigint | undefined {
  const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text);
  if (match === null) return undefined;
  const [, whole = "", decimals = ""] = match;
  return BigInt(whole) * NANO + BigInt(decimals.padEnd(DECIMALS, "0"));
}

/** @example formatDollars(250000000n) // "0.25" */
export function formatDollars(nanoDollars: bigint): string {
  const [sign, size] = nanoDollars < 0n ? ["-", -nanoDollars] : ["", nanoDollars];
  const decimals = String(size % NANO)
    .padStart(DECIMALS, "0")
    .replace(/0+$/, "");
  return `${sign}${size / NANO}${decimals === "" ? "" : `.${decimals}`}`;
}
