/** Sizes and durations as people write them, in flags and in configuration files. */

/** As vLLM reads them: k, m, g, t are decimal, K, M, G, T binary; KiB and kB say it outright. */
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

/** @returns a positive whole number of bytes; undefined where the text is none. @example parseByteSize("8GiB") // 8589934592 */
export function parseByteSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim());
  const unitBytes = match === null ? undefined : BYTES_BY_UNIT[match[2] ?? ""];
  const numBytes = Math.floor(Number(match?.[1]) * (unitBytes ?? Number.NaN));
  return Number.isSafeInteger(numBytes) && numBytes > 0 ? numBytes : undefined;
}

const MS_BY_UNIT: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Timers of Node end at 2^31 ms; 24 days are enough for any of ours. */
const MAX_DURATION_MS = 24 * 24 * 3_600_000;

/** @returns milliseconds; undefined where the text is no duration. @example parseDurationMs("1.5m") // 90000 */
export function parseDurationMs(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text.trim());
  const durationMs = Math.round(Number(match?.[1]) * (MS_BY_UNIT[match?.[2] ?? ""] ?? Number.NaN));
  return durationMs <= MAX_DURATION_MS ? durationMs : undefined;
}
