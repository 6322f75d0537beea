/**
 * Opens the prefix cache on disk. Its folder's name is a fingerprint of everything that determines the bytes of a
 * block: model, machine, options.
 */
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import type { EngineOptions } from "./api/options.js";
import type { EngineParts } from "./engine-parts.js";
import { DiskTier } from "./memory/disk-tier.js";
import { knownAnswer } from "./rehearsal.js";

/**
 * @param files the model's files
 * @param note called once when writing fails
 * @returns undefined where the options ask for none. Throws invalid_option when the folder cannot be used.
 */
export async function openDiskTier(
  parts: EngineParts,
  options: EngineOptions,
  files: readonly string[],
  note: (text: string) => void,
): Promise<DiskTier | undefined> {
  const { prefixCacheDisk, activationDtype } = options;
  if (prefixCacheDisk === undefined) return undefined;
  const { kvCacheDtype, blockSize, maxModelLen, isa } = parts.info;
  const facts = [fileFacts(files), kvCacheDtype, blockSize, maxModelLen, isa, activationDtype];
  const hash = createHash("sha256")
    .update(JSON.stringify(facts))
    .update(await knownAnswer(parts));
  return new DiskTier(prefixCacheDisk, hash.digest("hex"), parts.caches, note);
}

/**
 * Sizes and dates of the files. The known answer alone would miss a change: it reads few rows of the embedding table.
 */
function fileFacts(files: readonly string[]): readonly (readonly number[])[] {
  return files.map((file) => {
    const { size, mtimeMs } = statSync(file);
    return [size, mtimeMs];
  });
}
