/** From the loader's tensor names to those of GGUF files, which differ in two architectures. */
import type { Architecture } from "../description/servable.js";

/**
 * @example ggufNameOf("blk.3.ffn_norm.weight", "seed_oss") // "blk.3.post_attention_norm.weight"
 * @returns undefined for tensors that such files do not have
 */
export function ggufNameOf(name: string, architecture: Architecture | undefined): string | undefined {
  if (architecture !== "seed_oss" && architecture !== "gpt-oss") return name;
  if (/\.post_attention_norm\.weight$/.test(name)) return undefined;
  return name.replace(/\.ffn_norm\.weight$/, ".post_attention_norm.weight");
}
