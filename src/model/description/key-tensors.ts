/**
 * Tensors of a layer's keys and values. Files may have them for layers that read the keys and values of another, too,
 * where nothing reads them.
 */
export const KEY_TENSORS: readonly string[] = ["attn_k", "attn_v", "attn_k_norm"].flatMap((name) => [
  `${name}.weight`,
  `${name}.bias`,
]);
