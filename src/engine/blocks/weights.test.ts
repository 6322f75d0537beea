/** Which tensors a model is bound to, and which ones it must not have. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import type { Backend } from "../../backend/backend.js";
import type { TensorSource } from "../../backend/tensor-source.js";
import type { HfFolder } from "../../formats/hf/folder.js";
import { HfNames } from "../../model/hf/names.js";
import { type OpenModel, openModel } from "../../model/open-model.js";
import { bindModel, bindTensors } from "./weights.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-weights-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MIXTURE = join(folder, "mixture.gguf");
writeRandomModel(MIXTURE, { architecture: "qwen3moe", seed: 1 });

/** Without a place: refusals come before one is needed. */
const NO_BACKEND = { place: () => Promise.reject(new Error("placed")) } as unknown as Backend;
const bound = ({ config }: OpenModel, source: TensorSource) =>
  bindTensors(
    { name: "m", files: [], numBytes: 0, source },
    NO_BACKEND,
    { progress: () => {}, note: () => {} },
    (binder) => bindModel(binder, config),
  );

/** The model's tensors and one more. */
function sourceWith(model: OpenModel, extra: string): TensorSource {
  const own = model.tensors();
  return { has: (name) => name === extra || own.has(name), matrix: own.matrix.bind(own), values: own.values.bind(own) };
}

describe("beside experts", () => {
  it("no other tensor is needed", async () => {
    await expect(bound(openModel(MIXTURE), openModel(MIXTURE).tensors())).rejects.toThrow("placed");
  });

  it.each([
    ["ffn_gate_inp.bias", "a bias of the router's scores"],
    ["exp_probs_b.bias", "a bias of the router's scores"],
    ["ffn_gate_exps.bias", "biases of their own"],
    ["ffn_up_exps.bias", "biases of their own"],
    ["ffn_down_exps.bias", "biases of their own"],
    ["ffn_gate_up_exps.bias", "biases of their own"],
    ["ffn_down.7.bias", "biases of their own"],
    ["ffn_down_exps.scale", "scales of their own"],
    ["ffn_gate_shexp.weight", "a part that every token passes"],
    ["ffn_gate_inp_shexp.weight", "a part that every token passes"],
    ["ffn_up_chexps.weight", "a part that every token passes"],
  ])("a tensor %s is refused by name", async (part, what) => {
    const model = openModel(MIXTURE);
    const source = sourceWith(model, `blk.1.${part}`);
    const refusal = expect.objectContaining({
      code: "architecture_unsupported",
      message: `expected experts without ${what}, got a tensor blk.1.${part}`,
    });
    await expect(bound(model, source)).rejects.toThrow(refusal);
  });

  it.each([
    ["mixtral", "blk.1.ffn_gate_inp.bias", "model.layers.1.block_sparse_moe.gate.bias"],
    ["mixtral", "blk.0.ffn_down.3.bias", "model.layers.0.block_sparse_moe.experts.3.w2.bias"],
    ["qwen3moe", "blk.2.ffn_up_shexp.weight", "model.layers.2.mlp.shared_expert.up_proj.weight"],
  ] as const)("a folder of %s has %s under the name %s", (name, part, stored) => {
    const { config } = openModel(fixture(`hf/${name}`));
    const names = new HfNames({ files: { tensors: new Map() }, prefix: "model." } as unknown as HfFolder);
    expect(names.of(part, config.architecture)).toBe(stored);
  });
});
