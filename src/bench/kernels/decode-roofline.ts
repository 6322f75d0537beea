/** Decoding one sequence with a whole model, as a share of the read bandwidth measured around each round. */

import { median } from "../../core/statistics.js";
import type { Engine } from "../../engine/api/engine.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import { kvBytesPerToken } from "../../model/description/sizes.js";
import { describeGguf } from "../../model/gguf/describe.js";
import { runRound } from "../engine/engine-round.js";
import { randomPrompts } from "../engine/random-prompts.js";
import type { Probes } from "./probes.js";

export interface DecodeRoofline {
  readonly tokensPerS: number;
  /** Bytes of weights and KV that one step reads. */
  readonly bytesPerToken: number;
  readonly gbPerS: number;
  readonly ceilingGbPerS: number;
  readonly rooflineShare: number;
}

const PROMPT_TOKENS = 64;
const GEN_TOKENS = 48;
const ROUNDS = 5;

/**
 * Bytes of weights that a step reads. A step reads only single rows of the embedding table, unless the table is also
 * the output matrix.
 */
export function weightBytesPerStep(gguf: GgufFile): number {
  const isTied = !gguf.tensors.has("output.weight");
  let bytes = 0;
  for (const { name, byteLength } of gguf.tensors.values()) {
    if (isTied || name !== "token_embd.weight") bytes += byteLength;
  }
  return bytes;
}

export async function measureDecodeRoofline(engine: Engine, gguf: GgufFile, probes: Probes): Promise<DecodeRoofline> {
  const { kvCacheDtype, vocabSize } = engine.info;
  const meanContext = PROMPT_TOKENS + GEN_TOKENS / 2;
  const bytesPerToken = weightBytesPerStep(gguf) + meanContext * kvBytesPerToken(describeGguf(gguf), kvCacheDtype);
  const rounds: { readonly tokensPerS: number; readonly ceilingGbPerS: number; readonly rooflineShare: number }[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const shape = { batch: 1, promptTokens: PROMPT_TOKENS, sharedPrefix: 0, vocabSize };
    const before = probes.readBytesPerS();
    const { decodeMs } = await runRound(engine, { prompts: randomPrompts(shape, round), genTokens: GEN_TOKENS });
    const ceiling = Math.max(before, probes.readBytesPerS());
    const tokensPerS = (1000 * (GEN_TOKENS - 1)) / decodeMs;
    // Round 0 warms up.
    if (round === 0) continue;
    rounds.push({ tokensPerS, ceilingGbPerS: ceiling / 1e9, rooflineShare: (tokensPerS * bytesPerToken) / ceiling });
  }
  const tokensPerS = median(rounds.map((round) => round.tokensPerS));
  return {
    tokensPerS,
    bytesPerToken,
    gbPerS: (tokensPerS * bytesPerToken) / 1e9,
    ceilingGbPerS: median(rounds.map((round) => round.ceilingGbPerS)),
    rooflineShare: median(rounds.map((round) => round.rooflineShare)),
  };
}
