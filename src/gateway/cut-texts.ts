/** The field that makes /v1/embeddings cut texts that are longer than the model's context. */

export const CUT_TEXTS = { truncate_prompt_tokens: -1 } as const;

/** Engines that know the field. Ollama's cuts texts by itself; others refuse long texts. */
export const CUTTING_ENGINES: readonly string[] = ["millrace", "vllm"];
