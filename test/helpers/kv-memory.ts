/** KV memory that is as tight as a test wants it. */

import { kvEntryBytes } from "../../src/backend/program.js";
import type { EngineOptions } from "../../src/engine/api/options.js";
import { groupEntryBytes, type KvBudget, kvGroups, planKvBudget } from "../../src/engine/memory/groups.js";
import { keyWidth, kvBytesPerToken } from "../../src/model/description/sizes.js";
import { openModel } from "../../src/model/open-model.js";

type KvOptions = Pick<EngineOptions, "kvCacheDtype" | "blockSize" | "maxNumSeqs" | "maxNumBatchedTokens"> & {
  readonly maxModelLen: number;
};

/** The least memory in which full attention (or the widest window, where there is none) has `numBlocks` blocks. */
export function leastKvBudget(modelPath: string, numBlocks: number, options: KvOptions): KvBudget {
  const { config } = openModel(modelPath);
  // A layer that drafts has entries too.
  const layers = [...config.layers, ...(config.draftLayers ?? [])];
  const numLayers = layers.filter((layer) => keyWidth(layer) > 0).length;
  const { kvCacheDtype, blockSize, maxModelLen } = options;
  const groups = kvGroups(config, maxModelLen);
  const vectorBytes = (width: number) => kvEntryBytes(kvCacheDtype, width);
  const entryBytes = groupEntryBytes(config, groups, vectorBytes, config.draftLayers);
  const evenBytes = kvBytesPerToken({ layers }, kvCacheDtype) * blockSize;
  // One layer's block at a time.
  for (let bytes = evenBytes; ; bytes += evenBytes / numLayers) {
    const budget = planKvBudget(groups, entryBytes, blockSize, options, 0, bytes);
    if (Math.max(...budget.numBlocks) >= numBlocks) return budget;
  }
}
