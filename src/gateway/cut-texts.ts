/** The field of /v1/embeddings that has texts cut which the model's context cannot hold. */

export const CUT_TEXTS = { truncate_prompt_tokens: -1 } as const;

/** The engines that know the field. Ollama's cuts texts by itself; others refuse what is too long. */
export const CUTTING_ENGINES: readonly string[] = ["millrace", "vllm"];
