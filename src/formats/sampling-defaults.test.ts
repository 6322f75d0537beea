import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { Metadata } from "./gguf/metadata.js";
import type { GgufValue } from "./gguf/types.js";
import { readGgufSampling, readHfSampling } from "./sampling-defaults.js";

const gguf = (entries: Readonly<Record<string, GgufValue>>) =>
  readGgufSampling(
    new Metadata(new Map(Object.entries(entries).map(([name, value]) => [`general.sampling.${name}`, value]))),
  );

function folderWith(config: string): string {
  const folder = tempTree({});
  writeFileSync(join(folder, "generation_config.json"), config);
  return folder;
}

test("a GGUF file's defaults have the names of request fields, and the decimals they were written with", () => {
  const values = {
    temp: Math.fround(0.6),
    top_p: Math.fround(0.95),
    top_k: 20,
    min_p: 0,
    penalty_repeat: Math.fround(1.05),
  };
  expect(gguf(values)).toEqual({ temperature: 0.6, top_p: 0.95, top_k: 20, min_p: 0, repetition_penalty: 1.05 });
  const more = { penalty_last_n: 64, xtc_probability: 0.5, xtc_threshold: Math.fround(0.15), sequence: "kx" };
  expect(gguf(more)).toEqual({ repeat_last_n: 64, xtc_probability: 0.5, xtc_threshold: 0.15 });
  expect(gguf({ mirostat: 1, mirostat_tau: 5, mirostat_eta: 0.1 })).toEqual({});
});

test("a folder's defaults are those of generation_config.json; null and what else it says count for nothing", () => {
  const config =
    '{"do_sample": true, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": null, "typical_p": 0.9, "eos_token_id": [2]}';
  const defaults = { temperature: 0.7, top_p: 0.8, top_k: 20, typical_p: 0.9 };
  expect(readHfSampling(folderWith(config))).toEqual(defaults);
  expect(readHfSampling(tempTree({}))).toEqual({});
});

test.each([
  ["temp", -0.5, /general.sampling.temp to be a number in \[0, 2\], got -0.5/],
  ["top_p", 1.5, /general.sampling.top_p to be a number in \[0, 1\]/],
  ["top_k", 2.5, /general.sampling.top_k to be an integer/],
  ["penalty_last_n", -2, /general.sampling.penalty_last_n to be an integer of at least -1, got -2/],
  ["xtc_probability", 2, /general.sampling.xtc_probability to be a number in \[0, 1\]/],
  ["penalty_repeat", 0, /general.sampling.penalty_repeat to be a number in \(0, 100\]/],
] as const)("a GGUF file with %s %f is refused by name", (name, value, message) => {
  expect(() => gguf({ [name]: value })).toThrow(
    expect.objectContaining({ code: "model_config", message: expect.stringMatching(message) }),
  );
});

test("values of another type are refused", () => {
  expect(() => gguf({ temp: "hot" })).toThrow(expect.objectContaining({ code: "gguf_metadata" }));
  expect(() => gguf({ temp: Number.NaN })).toThrow(expect.objectContaining({ code: "gguf_metadata" }));
  const refusal = expect.objectContaining({ code: "model_config", message: expect.stringContaining("temperature") });
  expect(() => readHfSampling(folderWith('{"temperature": "0.7"}'))).toThrow(refusal);
  expect(() => readHfSampling(folderWith('{"temperature": 9}'))).toThrow(refusal);
});
