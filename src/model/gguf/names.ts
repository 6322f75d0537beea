/** From the loader's tensor names to those of GGUF files, which differ in some architectures. */
import { type Architecture, factsOf } from "../description/architectures.js";

/**
 * Their files call the norm before the feed-forward part `post_attention_norm`, elsewhere the name of a norm after
 * attention.
 */
const POST_NAMED: readonly Architecture[] = ["seed_oss", "gpt-oss", "glm4moe", "qwen3next", "qwen35", "qwen35moe"];
/** Their files call the norm behind the last layer `token_embd_norm`, elsewhere the name of a norm of embeddings. */
const EMBEDDING_NAMED: readonly Architecture[] = ["lfm2", "lfm2moe", "lfm3"];

/**
 * @example ggufNameOf("blk.3.ffn_norm.weight", "seed_oss") // "blk.3.post_attention_norm.weight"
 * @returns undefined for tensors that such files do not have
 */
export function ggufNameOf(name: string, architecture: Architecture | undefined): string | undefined {
  if (architecture === undefined) return name;
  if (EMBEDDING_NAMED.includes(architecture)) {
    if (name === "token_embd_norm.weight") return undefined;
    return name === "output_norm.weight" ? "token_embd_norm.weight" : name;
  }
  if (!POST_NAMED.includes(architecture)) return name;
  if (/\.post_attention_norm\.weight$/.test(name)) return undefined;
  return name.replace(/\.ffn_norm\.weight$/, ".post_attention_norm.weight");
}

/** The key of a norm's epsilon, without the architecture before it. */
export function epsKeyOf(architecture: Architecture): string {
  const { isLayerNormed = false, areRmsInFiles = false } = factsOf(architecture);
  return `attention.layer_norm_${isLayerNormed && !areRmsInFiles ? "" : "rms_"}epsilon`;
}
