/**
 * Finds out how a layer is quantised: by the tensors it has, and by config.json's quantization_config where those leave
 * a question.
 */
import { MillraceError } from "../../../core/errors.js";
import { type JsonObject, shownValue } from "../../../formats/files/json.js";
import type { QuantizedMatrix } from "./matrix.js";
import { openAwq, openGptq, openPackQuantized } from "./packed-words.js";
import { openScaledBytes } from "./scaled-bytes.js";
import type { LayerTensors } from "./tensors.js";

/** Tensors in place of a layer's plain `weight`. */
export const QUANTIZED_PARTS = ["qweight", "weight_packed"] as const;

/** The tensors that a quantised layer may have. Others, such as `pre_quant_scale`, would change its weights' values. */
export const LAYER_PARTS: ReadonlySet<string> = new Set([
  ...QUANTIZED_PARTS,
  "weight",
  "qzeros",
  "scales",
  "g_idx",
  "weight_shape",
  "weight_scale",
  "weight_scale_inv",
  "weight_zero_point",
  "weight_g_idx",
  // Scales of inputs, outputs, keys and values that others quantise too; here they are the floating point that those
  // approximate.
  "input_scale",
  "activation_scale",
  "input_global_scale",
  "input_zero_point",
  "output_scale",
  "output_zero_point",
  "q_scale",
  "k_scale",
  "v_scale",
  "kv_scale",
]);

const DEFAULT_BLOCK: readonly [number, number] = [128, 128];

/** Settings that change the meaning of the weights; read once for a model. */
export class CheckpointQuantization {
  readonly #json: JsonObject | undefined;
  readonly #method: string | undefined;

  /** @param config config.json */
  constructor(config: JsonObject) {
    const text = config.object("text_config");
    this.#json =
      config.object("quantization_config") ??
      config.object("compression_config") ??
      text?.object("quantization_config");
    this.#method = this.#json?.string("quant_method");
    if (this.#json?.has("transform_config") && Object.keys(this.#json.object("transform_config")!.raw).length > 0) {
      throw this.#refuse("transform_config", "absent");
    }
  }

  /** A layer that is no FP4. @param shape [outputs, inputs] */
  open(tensors: LayerTensors, shape: readonly [number, number]): QuantizedMatrix {
    if (tensors.find("qweight") !== undefined) return this.#openWords(tensors, shape);
    if (tensors.find("weight_packed") === undefined) return openScaledBytes(tensors, shape, this.#blockSize());
    for (const group of Object.values(this.#json?.object("config_groups")?.raw ?? {})) {
      const { num_bits: bits, type = "int" } =
        (group as { weights?: { num_bits?: unknown; type?: unknown } } | null)?.weights ?? {};
      if (bits !== 4 || type !== "int") throw this.#refuse("config_groups", "groups of integer weights of 4 bits");
    }
    const isSymmetric = Object.values(this.#json?.object("config_groups")?.raw ?? {}).every(
      (group) => (group as { weights?: { symmetric?: unknown } } | null)?.weights?.symmetric !== false,
    );
    if (!isSymmetric && tensors.find("weight_zero_point") === undefined)
      throw tensors.refuse(`${tensors.layer}.weight_zero_point of weights that are not symmetric`, "none");
    return openPackQuantized(tensors, shape);
  }

  #openWords(tensors: LayerTensors, shape: readonly [number, number]): QuantizedMatrix {
    const bits = this.#json?.number("bits") ?? this.#json?.number("w_bit") ?? 4;
    if (this.#method === "awq") {
      if (bits !== 4) throw this.#refuse("bits", "4");
      if ((this.#json?.string("version") ?? "gemm").toLowerCase() !== "gemm") throw this.#refuse("version", "gemm");
      return openAwq(tensors, shape, this.#groupSize());
    }
    if (this.#method !== "gptq") throw this.#refuse("quant_method", "gptq or awq");
    if (bits !== 4 && bits !== 8) throw this.#refuse("bits", "4 or 8");
    const format = this.#json?.string("checkpoint_format") ?? this.#json?.string("format") ?? "gptq";
    if (format !== "gptq" && format !== "gptq_v2") throw this.#refuse("checkpoint_format", "gptq or gptq_v2");
    if (this.#json?.value("desc_act") === true && tensors.find("g_idx") === undefined)
      throw tensors.refuse(`${tensors.layer}.g_idx of columns that desc_act has in another order`, "none");
    return openGptq(tensors, shape, { bits, storesZeroLessOne: format === "gptq", groupSize: this.#groupSize() });
  }

  /** Columns of a row that share a scale; undefined: not stated, or all of them. */
  #groupSize(): number | undefined {
    const stated = this.#json?.value("group_size") ?? this.#json?.value("q_group_size") ?? -1;
    if (stated === -1) return undefined;
    if (Number.isInteger(stated) && (stated as number) > 0) return stated as number;
    throw this.#refuse("group_size", "a positive integer, or -1 for whole rows");
  }

  /** Rows and columns that share a scale: DeepSeek's key, or compressed-tensors'. */
  #blockSize(): readonly [number, number] {
    const groups = Object.values(this.#json?.object("config_groups")?.raw ?? {}) as {
      weights?: { block_structure?: unknown };
    }[];
    const stated = this.#json?.numbers("weight_block_size") ?? groups[0]?.weights?.block_structure ?? DEFAULT_BLOCK;
    const [rows, cols] = Array.isArray(stated) ? (stated as unknown[]) : [];
    const isSize = (size: unknown): size is number => Number.isInteger(size) && (size as number) > 0;
    if (isSize(rows) && isSize(cols)) return [rows, cols];
    throw this.#refuse("weight_block_size", "two positive integers");
  }

  #refuse(key: string, expected: string): MillraceError {
    const name = this.#json?.nameOf(key) ?? `config.json: quantization_config.${key}`;
    const got = shownValue(this.#json?.value(key));
    return new MillraceError("tensor_type_unsupported", `expected ${name} to be ${expected}, got ${got}`, {
      hint: "The weights are quantised in a way millrace does not read; choose another version of the model.",
    });
  }
}
