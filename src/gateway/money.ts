/** Money is a whole number of nano-dollars (10⁻⁹ $), so that sums are exact. */

const NANO = 1_000_000_000n;
const DECIMALS = 9;

/**
 * @returns nano-dollars; undefined if the text is not an amount of at most nine decimals.
 * @example parseDollars("0.25") // 250000000n
 */
export function parseDollars(text: string): bigint | undefined {
  const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text);
  if (match === null) return undefined;
  const [, whole = "", decimals = ""] = match;
  return BigInt(whole) * NANO + BigInt(decimals.padEnd(DECIMALS, "0"));
}

/** The dollars of a number in its shortest decimals, without an exponent as in 1e-7. */
export const decimalText = (written: string | number): string => {
  if (typeof written === "string") return written;
  const decimals = written.toFixed(DECIMALS);
  return Number(decimals) === written ? decimals : String(written);
};

/**
 * All nine decimals, so that columns line up and no reader takes the text for rounded.
 * @example formatCost(1500n) // "0.000001500"
 */
export function formatCost(nanoDollars: bigint): string {
  const digits = String(nanoDollars < 0n ? -nanoDollars : nanoDollars).padStart(DECIMALS + 1, "0");
  return `${nanoDollars < 0n ? "-" : ""}${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`;
}

/** The shortest form. @example formatDollars(250000000n) // "0.25" */
export function formatDollars(nanoDollars: bigint): string {
  return formatCost(nanoDollars).replace(/\.?0+$/, "");
}
