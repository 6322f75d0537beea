/** NVFP4 layers that are incomplete, or whose scales are none; what complete ones hold is in models.test.ts. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { changedFolder } from "../../../../test/helpers/changed-folder.js";
import { fixture } from "../../../../test/helpers/fixtures.js";
import { tempTree } from "../../../../test/scripts/temp-tree.js";
import { openModel } from "../../open-model.js";

const LAYER = "model.layers.0.mlp.down_proj";
type Tensors = Parameters<NonNullable<Parameters<typeof changedFolder>[2]["tensors"]>>[0];
type Tensor = Tensors[string];

/** Converts the layer after one of its tensors was changed. */
function convert(format: string, part: string, change: (tensor: Tensor) => Tensor | undefined, cols = 192): void {
  const folder = changedFolder(fixture(`hf-quantized/${format}`), join(tempTree({}), "folder"), {
    tensors: ({ [`${LAYER}.${part}`]: tensor, ...others }) => {
      const changed = change(tensor!);
      return changed === undefined ? others : { ...others, [`${LAYER}.${part}`]: changed };
    },
  });
  const rows = openModel(folder)
    .tensors()
    .matrix({ name: "blk.0.ffn_down.weight", totalRows: 64, cols, start: 0, rows: 64 });
  if ("convert" in rows) rows.convert(new ArrayBuffer((64 * cols * 40) / 64));
}

const outcomeOf = (...args: Parameters<typeof convert>): string => {
  try {
    convert(...args);
  } catch (thrown) {
    const { code, message } = thrown as { code?: string; message: string };
    return `${code}: ${message}`;
  }
  return "accepted";
};

const none = () => undefined;
const filled =
  (...bytes: number[]) =>
  (tensor: Tensor): Tensor => ({ ...tensor, data: tensor.data!.map((byte, i) => bytes[i] ?? byte) });
const single = (value: number) => filled(...new Uint8Array(Float32Array.of(value).buffer));
const shaped =
  (...shape: number[]) =>
  (tensor: Tensor): Tensor => ({ ...tensor, shape });

it.each(["nvfp4-pack", "nvfp4-modelopt"])("a layer of %s is converted as it is", (format) => {
  expect(outcomeOf(format, "weight_scale", (tensor) => tensor)).toBe("accepted");
  // The largest scale, and none.
  expect(outcomeOf(format, "weight_scale", filled(0x7e, 0))).toBe("accepted");
});

it.each<[string, string, string, (tensor: Tensor) => Tensor | undefined, RegExp]>([
  ["scales are missing", "nvfp4-pack", "weight_scale", none, /weight_scale as F8_E4M3 \[64,12\], got none/],
  ["they are of 32", "nvfp4-modelopt", "weight_scale", shaped(128, 6), /weight_scale as .*, got F8_E4M3 \[128,6\]/],
  ["its scale is missing", "nvfp4-pack", "weight_global_scale", none, /weight_global_scale as F32 \[1\], got none/],
  ["that is zero", "nvfp4-pack", "weight_global_scale", single(0), /a positive number in .*_global_scale, got 0/],
  ["that is tiny", "nvfp4-pack", "weight_global_scale", single(1e-40), /a positive number in/],
  [
    "that is no number",
    "nvfp4-modelopt",
    "weight_scale_2",
    single(Number.NaN),
    /finite numbers in .*_scale_2, got NaN/,
  ],
  ["that is negative", "nvfp4-modelopt", "weight_scale_2", single(-1), /a positive number in .*weight_scale_2, got -1/],
  ["a scale is NaN", "nvfp4-pack", "weight_scale", filled(0x7f), /weight_scale of numbers from 0 to 448, got .* 127/],
  ["a scale is below zero", "nvfp4-modelopt", "weight_scale", filled(1, 0x81), /from 0 to 448, got the bits 129/],
])("a layer is refused when %s", (_, format, part, change, message) => {
  const outcome = outcomeOf(format, part, change);
  expect(outcome).toMatch(/^model_tensor: /);
  expect(outcome).toMatch(message);
});

it("rows that are no whole blocks are refused", () => {
  expect(outcomeOf("nvfp4-pack", "weight_packed", (tensor) => tensor, 96)).toMatch(/as U8 \[64,48\], got U8 \[64,96\]/);
});
