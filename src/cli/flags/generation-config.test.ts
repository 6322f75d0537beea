import { Command } from "commander";
import { expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { type SamplingChoice, type SamplingSource, samplingDefaultsFor, samplingFrom } from "../../local/sampling.js";
import { describeSampling } from "../output/describe-sampling.js";
import { addGenerationConfigOptions } from "./generation-config.js";
import { addSamplingOptions } from "./sampling-options.js";

const OF_MODEL = { temperature: 0.6, top_k: 20 };

function defaultsWith(...args: readonly string[]) {
  const command = addGenerationConfigOptions(new Command(), "Server:").exitOverride();
  const flags = command.parse(args, { from: "user" }).opts<SamplingSource>();
  return samplingDefaultsFor(flags, () => OF_MODEL);
}

test("the model's defaults hold, unless a flag says otherwise", () => {
  expect(defaultsWith()).toEqual(OF_MODEL);
  expect(defaultsWith("--generation-config", "none")).toEqual({});
  expect(defaultsWith("--generation-config", "vllm")).toEqual({});
  const override = ["--override-generation-config", '{"temperature":0.2}'] as const;
  expect(defaultsWith(...override)).toEqual({ temperature: 0.2, top_k: 20 });
  expect(defaultsWith(...override, "--generation-config", "none")).toEqual({ temperature: 0.2 });
});

test("an override takes every sampler that has a default", () => {
  const all = {
    temperature: 0.2,
    top_p: 0.9,
    top_k: -1,
    min_p: 0.1,
    repetition_penalty: 1.1,
    presence_penalty: -1,
    frequency_penalty: 0.5,
    repeat_last_n: 64,
    typical_p: 0.9,
    top_n_sigma: 1.5,
    xtc_probability: 0.5,
    xtc_threshold: 0.2,
    dynatemp_range: 0.4,
    dynatemp_exponent: 2,
  };
  const defaults = defaultsWith("--override-generation-config", JSON.stringify(all));
  expect(defaults).toEqual(all);
  expect(samplingFrom({}, defaults, 8, [])).toMatchObject({
    temperature: 0.2,
    topP: 0.9,
    topK: 0,
    minP: 0.1,
    repetitionPenalty: 1.1,
    presencePenalty: -1,
    frequencyPenalty: 0.5,
    penaltyWindow: 64,
    typicalP: 0.9,
    topNSigma: 1.5,
    xtc: { probability: 0.5, threshold: 0.2 },
    dynamicTemperature: { range: 0.4, exponent: 2 },
  });
});

test("a folder can have them, as in vLLM", () => {
  const folder = tempTree({ "generation_config.json": '{"temperature": 0.8}' });
  expect(defaultsWith("--generation-config", folder)).toEqual({ temperature: 0.8 });
  expect(() => defaultsWith("--generation-config", "automatic")).toThrow(/auto, none, or a folder .*got "automatic"/);
});

test("a model whose defaults are broken can be served without them", () => {
  const broken = () => {
    throw new Error("broken");
  };
  expect(samplingDefaultsFor({ generationConfig: "none" }, broken)).toEqual({});
  expect(() => samplingDefaultsFor({ generationConfig: "auto" }, broken)).toThrow("broken");
});

test.each([
  ["no JSON", "hot", /a JSON object, got "hot"/],
  ["a list", "[1]", /a JSON object/],
  ["a name nobody knows", '{"temprature":1}', /to name temperature, top_p, .*got temprature/],
  ["a value out of range", '{"temperature":3}', /temperature in --override.*a number in \[0, 2\]/],
  ["a sampler that requests bring", '{"dry_multiplier":1}', /to name temperature, .*got dry_multiplier/],
  ["null", '{"top_p":null}', /top_p in --override/],
])("an override that is %s is refused", (_, text, message) => {
  expect(() => defaultsWith("--override-generation-config", text)).toThrow(message);
});

test("sampling defaults are described in a line", () => {
  expect(describeSampling({ top_k: 20, temperature: 0.6 })).toBe("temperature 0.6, top_k 20");
});

test("flags of generate and chat win over the model's defaults, which win over the API's", () => {
  const sampled = (...args: readonly string[]) => {
    const flags = addSamplingOptions(new Command()).parse(args, { from: "user" }).opts<SamplingChoice>();
    return samplingFrom(flags, { ...OF_MODEL, top_p: 0, repetition_penalty: 1.1 }, 8, []);
  };
  expect(sampled()).toMatchObject({ temperature: 0.6, topK: 1, topP: 1, minP: 0, repetitionPenalty: 1.1 });
  expect(sampled("--temperature", "1", "--top-p", "0.9")).toMatchObject({ temperature: 1, topK: 20, topP: 0.9 });
});
