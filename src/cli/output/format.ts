/** Tables and JSON of commands. */
import { visible } from "../../core/visible-text.js";

/** An unchecked object in a server's answer. */
export type Json = Readonly<Record<string, unknown>>;

/** Rows as aligned columns, two spaces apart; control characters become visible. */
export function formatTable(given: readonly (readonly string[])[]): string {
  const rows = given.map((row) => row.map(visible));
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

const JSON_DIGITS = 9;

/**
 * JSON with fractions rounded to nine digits, which drops the rounding noise of sums and quotients.
 * @example jsonText({ ms: 15.99330400000008 }) // '{"ms":15.993304}'
 */
export function jsonText(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_, one: unknown) => (isFraction(one) ? Number(one.toPrecision(JSON_DIGITS)) : one),
    indent,
  );
}

function isFraction(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && !Number.isInteger(value);
}

/** @example minute("2026-11-28T04:37:15.000Z") // "2026-11-28 04:37" */
export const minute = (time: string): string => time.slice(0, 16).replace("T", " ");
