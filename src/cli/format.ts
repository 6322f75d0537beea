/** Numbers for people: sizes, counts, durations. */

const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** @example formatBytes(1536) // "1.5 KiB" */
export function formatBytes(numBytes: number): string {
  let value = numBytes;
  let unit = 0;
  while (value >= 1024 && unit < BINARY_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : 1)} ${BINARY_UNITS[unit]}`;
}

/** @example formatCount(1_100_000_000) // "1.10B" */
export function formatCount(count: number): string {
  for (const [size, suffix] of [
    [1e12, "T"],
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "K"],
  ] as const) {
    if (count >= size) return `${(count / size).toFixed(2)}${suffix}`;
  }
  return String(count);
}

/** @example formatDuration(2500) // "2.50 s" */
export function formatDuration(durationMs: number): string {
  return durationMs < 1000 ? `${Math.round(durationMs)} ms` : `${(durationMs / 1000).toFixed(2)} s`;
}

/** Rows as aligned columns, two spaces apart. */
export function formatTable(rows: readonly (readonly string[])[]): string {
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

/** JSON for programs, without the last binary digits of sums and quotients. @example jsonText({ ms: 15.99330400000008 }) // '{"ms":15.993304}' */
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
