/** Names of split model files: `<prefix>-00001-of-00003.gguf`, as llama.cpp's gguf-split writes them. */

interface SplitName {
  readonly prefix: string;
  /** From 1. */
  readonly number: number;
  readonly count: number;
}

const SPLIT_PATTERN = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/s;

/** Undefined for a name (or path) that is not that of a shard. */
export function parseSplitName(name: string): SplitName | undefined {
  const match = SPLIT_PATTERN.exec(name);
  if (match === null) return undefined;
  const number = Number(match[2]);
  const count = Number(match[3]);
  return number >= 1 && number <= count ? { prefix: match[1] ?? "", number, count } : undefined;
}

/** @example splitName("model", 2, 3) // "model-00002-of-00003.gguf" */
export function splitName(prefix: string, number: number, count: number): string {
  return `${prefix}-${String(number).padStart(5, "0")}-of-${String(count).padStart(5, "0")}.gguf`;
}
