/** Writes the config.json entry for layers in the layouts of the package compressed-tensors. */
import type { LayerStorage } from "./tensors.js";

/**
 * @param format name of the layout
 * @param weights storage of the weights
 * @param activations quantisation of layers' inputs by other engines; null: none
 * @param ignored names of the linear layers with plain weights
 */
export const compressedConfig = (
  format: string,
  weights: object,
  activations: object | null,
  ignored: readonly string[],
): object => ({
  quant_method: "compressed-tensors",
  format,
  quantization_status: "compressed",
  ignore: ignored,
  config_groups: {
    group_0: { targets: ["Linear"], weights, input_activations: activations, output_activations: null },
  },
  kv_cache_scheme: null,
});

/** Columns that share a scale in NVFP4. */
const GROUP = 16;

export const nvfp4Parts: LayerStorage["partsOf"] = (rows, cols) => [
  { part: "weight_packed", type: "U8", shape: [rows, cols / 2] },
  { part: "weight_scale", type: "F8_E4M3", shape: [rows, cols / GROUP] },
  { part: "weight_global_scale", type: "F32", shape: [1] },
];

export const nvfp4Config = (ignored: readonly string[]): object =>
  compressedConfig(
    "nvfp4-pack-quantized",
    { num_bits: 4, type: "float", symmetric: true, strategy: "tensor_group", group_size: GROUP, dynamic: false },
    null,
    ignored,
  );
