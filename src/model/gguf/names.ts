/** From the loader's tensor names to those of GGUF files, which differ in some architectures. */
import type { Architecture } from "../description/architectures.js";

/**
 * Their files call the norm before the feed-forward part `post_attention_norm`, elsewhere the name of a norm after
 * attention.
 */
const RENAMED: readonly Architecture[] = ["seed_oss", "gpt-oss", "glm4moe", "qwen3next", "qwen35", "qwen35moe"];

/**
 * @example ggufNameOf("blk.3.ffn_norm.weight", "seed_oss") // "blk.3.post_attention_norm.weight"
 * @returns undefined for tensors that such files do not have
 */
export function ggufNameOf(name: string, architecture: Architecture | undefined): string | undefined {
  if (architecture === undefined || !RENAMED.includes(architecture)) return name;
  if (/\.post_attention_norm\.weight$/.test(name)) return undefined;
  return name.replace(/\.ffn_norm\.weight$/, ".post_attention_norm.weight");
}
