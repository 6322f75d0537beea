/** KV memory that is as tight as a test wants it. */
import type { EngineOptions } from "../../src/engine/api/options.js";
import { type KvBudget, kvGroups, planKvBudget } from "../../src/engine/memory/groups.js";
import { attentionMixers } from "../../src/model/description/servable.js";
import { kvBytesPerToken } from "../../src/model/description/sizes.js";
import { openModel } from "../../src/model/open-model.js";

type KvOptions = Pick<EngineOptions, "kvCacheDtype" | "blockSize" | "maxNumSeqs" | "maxNumBatchedTokens"> & {
  readonly maxModelLen: number;
};

/** The least memory in which full attention (or the widest window, where there is none) has `numBlocks` blocks. */
export function leastKvBudget(modelPath: string, numBlocks: number, options: KvOptions): KvBudget {
  const { config } = openModel(modelPath);
  const numLayers = attentionMixers(config).length;
  const { kvCacheDtype, blockSize, maxModelLen } = options;
  const groups = kvGroups(config, maxModelLen);
  const tokenBytes = kvBytesPerToken(config, kvCacheDtype);
  const evenBytes = tokenBytes * blockSize;
  // One layer's block at a time.
  for (let bytes = evenBytes; ; bytes += evenBytes / numLayers) {
    const budget = planKvBudget(groups, tokenBytes / numLayers, blockSize, options, 0, bytes);
    if (Math.max(...budget.numBlocks) >= numBlocks) return budget;
  }
}
