/** Model folders of test/fixtures/hf with the layer for multi-token prediction of test/fixtures/mtp. */
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import type { Draft } from "../../src/engine/speculative/drafter.js";
import { readSafetensors } from "../../src/formats/safetensors/read.js";
import { changedFolder } from "./changed-folder.js";
import { fixture } from "./fixtures.js";
import type { encodeSafetensors } from "./safetensors-writer.js";

type Tensors = Parameters<typeof encodeSafetensors>[0];

export const MTP_MODELS = ["qwen35", "qwen35_vision", "qwen35moe", "qwen3next", "glm4_moe"] as const;
type MtpModel = (typeof MTP_MODELS)[number];

/** @param change of the layer's own tensors @returns `out`, which is created */
export function writeMtpFolder(name: MtpModel, out: string, change: (own: Tensors) => Tensors = (own) => own): string {
  const { tensors: own, shards } = readSafetensors(fixture(`mtp/${name}`));
  const stored = Array.from(own.values(), ({ name: key, dtype, shape, shard, byteOffset, byteLength }) => {
    const data = readFileSync(shards[shard]!.path).subarray(byteOffset, byteOffset + byteLength);
    return [key, { dtype, shape, data }] as const;
  });
  return changedFolder(fixture(`hf/${name}`), out, {
    settings: name === "glm4_moe" ? { num_nextn_predict_layers: 1 } : {},
    tensors: (tensors) => ({ ...tensors, ...change(Object.fromEntries(stored)) }),
  });
}

interface ExpectedDraft {
  readonly tokens: readonly number[];
  readonly chances: readonly number[];
}

/** As test/fixtures/make-mtp-layers.py writes it: by model, then by number of tokens. */
interface ExpectedDrafts {
  readonly ids: readonly number[];
  readonly drafts: Readonly<Record<MtpModel, Readonly<Record<string, ExpectedDraft>>>>;
}
export const EXPECTED_DRAFTS = JSON.parse(readFileSync(fixture("mtp/expected.json"), "utf8")) as ExpectedDrafts;

/** F32 sums in another order. */
const TOLERANCE = 5e-5;

export function expectDrafts(got: readonly Draft[], expected: readonly (ExpectedDraft | undefined)[]): void {
  expected.forEach((draft, index) => {
    expect(got[index]!.tokens).toEqual(draft!.tokens);
    draft!.chances.forEach((chance, i) => {
      expect(Math.abs(got[index]!.chances[i]! - chance)).toBeLessThan(TOLERANCE);
    });
  });
}
