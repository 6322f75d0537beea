/** Gemma 4 as quantised folders: experts are separate matrices, and plain layers are listed by name. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type RandomModelOptions, writeRandomModel } from "../../test/helpers/random-model.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import { convertModel } from "../convert/convert.js";
import { silentStages } from "../core/stages.js";
import { readHfFolder } from "../formats/hf/folder.js";
import type { FolderMethod } from "./folder-formats.js";
import { measureLoss } from "./loss.js";
import { quantisedStorage } from "./storage.js";

const { signal } = new AbortController();
const TEXTS = Array.from({ length: 2 }, (_, text) => Array.from({ length: 24 }, (_, i) => (text * 31 + i * 7) % 300));

async function quantised(model: string, method: FolderMethod) {
  const out = join(tempTree({}), "copy");
  const encoder = createRowEncoder(1);
  await convertModel({
    model,
    out,
    type: (opened) => quantisedStorage(method, opened, { encoder, importance: undefined }),
  });
  encoder.close();
  const { quantization_config: config } = JSON.parse(readFileSync(join(out, "config.json"), "utf8")) as {
    readonly quantization_config: { readonly ignore: readonly string[] };
  };
  return { out, ignored: config.ignore, names: [...readHfFolder(out).files.tensors.keys()] };
}

const EXPERTS = { ff: 128, experts: { count: 8, active: 3 } };

test.each<[string, FolderMethod, Partial<RandomModelOptions>, number]>([
  ["sliding and full layers", "FP8", {}, 0.15],
  ["keys of others and inputs of layers", "INT4_32", { layers: 6, sharesKeys: true }, 0.8],
  ["experts", "FP8", EXPERTS, 0.3],
  ["experts", "NVFP4", EXPERTS, 0.8],
])("a model with %s in %s predicts nearly what the original does", async (_, method, options, most) => {
  const model = join(tempTree({}), "model.gguf");
  writeRandomModel(model, { architecture: "gemma4", seed: 4, width: 128, type: "BF16", ...options });
  const { out, ignored, names } = await quantised(model, method);
  const { meanKl } = await measureLoss(model, out, TEXTS, 1, silentStages, signal);
  expect(meanKl).toBeGreaterThan(0);
  expect(meanKl).toBeLessThan(most);
  const part = method === "FP8" ? "weight_scale" : "weight_packed";
  const coded = names.flatMap((name) => (name.endsWith(`.${part}`) ? [name.slice(0, -part.length - 1)] : []));
  const linear = names.flatMap((name) => /^(.*(?:proj|gate|projection))\.weight$/.exec(name)?.[1] ?? []);
  expect(coded.some((name) => name.endsWith("self_attn.q_proj"))).toBe(true);
  expect(coded.includes("model.layers.0.experts.7.gate_proj")).toBe("experts" in options);
  // Every linear layer is stored in parts, or listed as plain.
  for (const name of linear) if (!coded.includes(name)) expect(ignored).toContain(name);
  expect(ignored.includes("model.per_layer_model_projection")).toBe("sharesKeys" in options);
});
