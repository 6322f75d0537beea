/** Sizes, counts and durations: read from flags and configuration files, and written for people. */

/** Units as in vLLM: k, m, g, t are decimal, K, M, G, T binary; KiB and kB are explicit. */
const BYTES_BY_UNIT: Readonly<Record<string, number>> = {
  "": 1,
  B: 1,
  k: 1e3,
  kB: 1e3,
  m: 1e6,
  MB: 1e6,
  g: 1e9,
  GB: 1e9,
  t: 1e12,
  TB: 1e12,
  K: 2 ** 10,
  KiB: 2 ** 10,
  M: 2 ** 20,
  MiB: 2 ** 20,
  G: 2 ** 30,
  GiB: 2 ** 30,
  T: 2 ** 40,
  TiB: 2 ** 40,
};

/**
 * @returns a positive whole number of bytes; undefined for other texts.
 * @example parseByteSize("8GiB") // 8589934592
 */
export function parseByteSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim());
  const unitBytes = match === null ? undefined : BYTES_BY_UNIT[match[2] ?? ""];
  const numBytes = Math.floor(Number(match?.[1]) * (unitBytes ?? Number.NaN));
  return Number.isSafeInteger(numBytes) && numBytes > 0 ? numBytes : undefined;
}

const MS_BY_UNIT: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Node's timers end at 2^31 ms; 24 days suffice for all of ours. */
const MAX_DURATION_MS = 24 * 24 * 3_600_000;

/** @returns milliseconds; undefined for a text that is not a duration. @example parseDurationMs("1.5m") // 90000 */
export function parseDurationMs(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text.trim());
  const durationMs = Math.round(Number(match?.[1]) * (MS_BY_UNIT[match?.[2] ?? ""] ?? Number.NaN));
  return durationMs <= MAX_DURATION_MS ? durationMs : undefined;
}

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

/**
 * Dollars for people.
 * @param decimals default: two; four below ten cents, none from a hundred dollars on.
 * @example formatUsd(0.5814814) // "$0.58"
 */
export function formatUsd(dollars: number, decimals = dollars >= 100 ? 0 : dollars < 0.1 ? 4 : 2): string {
  if (!Number.isFinite(dollars)) return "$∞";
  const text = dollars.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return `$${text}`;
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
