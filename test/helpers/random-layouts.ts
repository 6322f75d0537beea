/** The tensors of a tiny random model in the other forms that files have them in. */
import type { WritableTensor } from "../../src/formats/gguf/write.js";
import type { Dimensions } from "./random-dimensions.js";

/** The experts' tensors in another layout, with the same values. */
export function laidOut(
  tensors: readonly WritableTensor[],
  { expertLayout, experts }: Dimensions,
): readonly WritableTensor[] {
  const slicesOf = (tensor: WritableTensor): Buffer[] => {
    const bytes = Buffer.concat([...(tensor.data as () => Iterable<Uint8Array>)()]);
    const size = bytes.length / experts.count;
    return Array.from({ length: experts.count }, (_, e) => bytes.subarray(e * size, (e + 1) * size));
  };
  if (expertLayout === "stacked") return tensors;
  return tensors.flatMap((tensor): WritableTensor[] => {
    const { name, type, shape } = tensor;
    const [cols, rows, count] = shape;
    if (count === undefined) return [tensor];
    if (expertLayout === "apart") {
      const nameOf = (e: number) => name.replace("_exps", `.${e}`);
      return slicesOf(tensor).map((data, e) => ({ name: nameOf(e), type, shape: [cols!, rows!], data: () => [data] }));
    }
    if (name.includes("ffn_up_exps")) return [];
    if (!name.includes("ffn_gate_exps")) return [tensor];
    const up = tensors.find((other) => other.name === name.replace("gate", "up"))!;
    const ups = slicesOf(up);
    const data = slicesOf(tensor).flatMap((gate, e) => [gate, ups[e]!]);
    return [{ name: name.replace("gate", "gate_up"), type, shape: [cols!, 2 * rows!, count], data: () => data }];
  });
}

/** Of one matrix after the other; the mean is about one. */
const MATRIX_SCALES = [1.125, 0.7, -1.3, 0.9];

/** With a scale of its own for each matrix, or with the values that such scales give. */
export function withScales(
  tensors: readonly WritableTensor[],
  { type, isDequantised, hasMatrixScales }: Dimensions,
): readonly WritableTensor[] {
  if (!hasMatrixScales) return tensors;
  return tensors.flatMap((tensor, index): WritableTensor[] => {
    const { name, shape, data } = tensor;
    const isMatrix = /^blk\..*\.weight$/.test(name) && shape.length > 1 && !name.includes("ffn_gate_inp");
    if (!isMatrix || tensor.type !== (isDequantised ? "F32" : type)) return [tensor];
    const scales = Float32Array.from({ length: shape[2] ?? 1 }, (_, i) => MATRIX_SCALES[(index + i) % 4]!);
    if (!isDequantised) {
      const bytes = new Uint8Array(scales.buffer);
      return [
        tensor,
        { name: name.replace(".weight", ".scale"), type: "F32", shape: [scales.length], data: () => [bytes] },
      ];
    }
    const scaled = () => {
      const bytes = Buffer.concat([...(data as () => Iterable<Uint8Array>)()]);
      const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
      return [
        new Uint8Array(
          values.map((value, i) => value * scales[Math.floor((i * scales.length) / values.length)]!).buffer,
        ),
      ];
    };
    return [{ ...tensor, data: scaled }];
  });
}
