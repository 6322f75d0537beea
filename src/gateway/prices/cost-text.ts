/** Costs in dollars, exact to the nano-dollar. */

const DECIMALS = 9;

/** All nine decimals, so that columns line up and no reader takes the text for a rounded one. @example formatCost(1500n) // "0.000001500" */
export function formatCost(nanoDollars: bigint): string {
  const digits = String(nanoDollars < 0n ? -nanoDollars : nanoDollars).padStart(DECIMALS + 1, "0");
  return `${nanoDollars < 0n ? "-" : ""}${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`;
}
