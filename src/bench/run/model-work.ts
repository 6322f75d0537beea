/** The least work of a model's tokens, computed from its file: bytes to read and multiply-adds. */

import type { KvType } from "../../backend/ops.js";
import { readGguf } from "../../formats/gguf/read.js";
import type { GgufTensor } from "../../formats/gguf/types.js";
import { windowOf } from "../../model/description/servable.js";
import { attentionMacs, keyWidth, kvBytesPerToken } from "../../model/description/sizes.js";
import { servableGguf } from "../../model/gguf/servable.js";
import { weightBytesPerStep } from "../kernels/decode-roofline.js";
import { mixOf } from "../kernels/linear-workloads.js";
import type { ModelWork } from "../results/schema.js";

type Macs = Record<string, number>;

function macsOf(tensors: readonly GgufTensor[]): Macs {
  const macs: Macs = {};
  for (const { type, shape } of tensors) {
    const mix = mixOf(type);
    macs[mix] = (macs[mix] ?? 0) + shape.reduce((product, size) => product * size, 1);
  }
  return macs;
}

/** @returns undefined for a folder of safetensors files, whose weights the server converts */
export function modelWork(path: string, kvType: KvType = "f16"): ModelWork | undefined {
  if (!/\.gguf$/i.test(path)) return undefined;
  const gguf = readGguf(path);
  const config = servableGguf(gguf);
  const windows = config.layers.filter((layer) => keyWidth(layer) > 0).map(windowOf);
  const matrices = [...gguf.tensors.values()].filter(({ shape }) => shape.length > 1);
  const isTable = ({ name }: GgufTensor) => name === "token_embd.weight" || name === "output.weight";
  const output = gguf.tensors.get("output.weight") ?? gguf.tensors.get("token_embd.weight");
  return {
    weightBytes: weightBytesPerStep(gguf),
    kvBytesPerToken: kvBytesPerToken(config, kvType),
    layerMacs: macsOf(matrices.filter((tensor) => !isTable(tensor))),
    outputMacs: macsOf(output === undefined ? [] : [output]),
    attentionMacs: attentionMacs(config, 1),
    windows: [...new Set(windows)]
      .filter((tokens) => tokens > 0)
      .map((tokens) => ({ tokens, layerShare: windows.filter((each) => each === tokens).length / windows.length })),
  };
}
