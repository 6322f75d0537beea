/** Formats numbers of bytes. */
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** @example sizeText(1_572_864) // "1.5 MiB" */
export function sizeText(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const size = bytes / 1024 ** power;
  return `${size.toFixed(power === 0 || size >= 100 ? 0 : 1)} ${UNITS[power]}`;
}
