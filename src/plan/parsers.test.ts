import { expect, test } from "vitest";
import { planRequest } from "../../test/helpers/plan-request.js";
import type { PlannedEngine } from "./data/engines.js";
import { KNOWN_MODELS } from "./data/models.js";
import { CALL_PARSERS, PARSER_FLAGS, THOUGHT_PARSERS } from "./data/parsers.js";
import { knownModel } from "./known-model.js";
import { parserArguments, parserChoices } from "./parsers.js";
import { makePlan } from "./plan.js";

const VLLM = ["--enable-auto-tool-choice", "--tool-call-parser"];

test.each<[string, PlannedEngine, readonly string[]]>([
  ["llama-3.1-8b", "vllm", [...VLLM, "llama3_json"]],
  ["llama-3.1-8b", "sglang", ["--tool-call-parser", "llama3"]],
  ["llama-3.1-8b", "llama-server", ["--jinja"]],
  ["llama-3.1-8b", "tgi", []],
  ["llama-2-7b", "vllm", []],
  ["qwen2.5-32b", "vllm", [...VLLM, "hermes"]],
  ["qwen3-30b-a3b", "vllm", [...VLLM, "hermes", "--reasoning-parser", "qwen3"]],
  ["qwen3-8b", "sglang", ["--tool-call-parser", "qwen", "--reasoning-parser", "qwen3"]],
  ["qwen3-8b", "tensorrt-llm", ["--tool_parser", "qwen3", "--reasoning_parser", "qwen3"]],
  ["gpt-oss-20b", "vllm", [...VLLM, "openai", "--reasoning-parser", "openai_gptoss"]],
  ["gpt-oss-20b", "sglang", ["--tool-call-parser", "gpt-oss", "--reasoning-parser", "gpt-oss"]],
  ["mistral-7b", "vllm", [...VLLM, "mistral"]],
  ["mixtral-8x7b", "vllm", []],
  ["deepseek-v3", "sglang", ["--tool-call-parser", "deepseekv3"]],
  ["deepseek-r1-distill-70b", "vllm", ["--reasoning-parser", "deepseek_r1"]],
  ["gemma3-27b", "vllm", []],
])("%s in %s is started with its parsers", (name, engine, args) => {
  expect(parserArguments(knownModel(name), engine)).toEqual(args);
});

test("a plan has them behind its own flags, and says what they read", () => {
  const [best] = makePlan(planRequest("qwen3-30b-a3b", "h100")).configurations;
  expect(best!.extraArgs).toEqual([...VLLM, "hermes", "--reasoning-parser", "qwen3"]);
  const [calls, thoughts] = ["tool calls", "thoughts"].map((about) =>
    best!.choices.find((each) => each.about === about),
  );
  expect(calls).toMatchObject({ choice: "hermes", because: expect.stringMatching(/^--tool-call-parser of vllm/) });
  expect(thoughts).toMatchObject({ choice: "qwen3", because: expect.stringMatching(/^--reasoning-parser of vllm/) });
  const gguf = makePlan(planRequest("llama-3.1-8b", "h100", { engine: "llama-server" })).configurations[0]!;
  expect(gguf.extraArgs).toEqual(["-ngl", "999", "--jinja"]);
});

test("a model whose form of calls is not known, as any that is no well-known one, is said to have no parser", () => {
  const { toolCalls: _, thoughts: __, ...unknown } = knownModel("qwen3-8b");
  expect(parserArguments(unknown, "vllm")).toEqual([]);
  expect(parserChoices(unknown, "vllm")).toEqual([
    {
      about: "tool calls",
      choice: "not read",
      because: expect.stringMatching(/no parser of vllm.*name one among the model's args \(--tool-call-parser\)/),
    },
  ]);
  const trt = parserChoices(knownModel("gpt-oss-20b"), "tensorrt-llm");
  expect(trt.map(({ choice }) => choice)).toEqual(["not read", "not read"]);
});

test("engines that need no parser are said to read calls by themselves", () => {
  for (const engine of ["millrace", "ollama", "llama-server"] as const) {
    expect(PARSER_FLAGS[engine]).toBeUndefined();
    expect(parserChoices(knownModel("qwen3-8b"), engine)).toMatchObject([{ choice: "read" }]);
  }
});

test("TGI is said to leave thoughts in the answer", () => {
  expect(parserChoices(knownModel("qwen3-8b"), "tgi").map(({ choice }) => choice)).toEqual(["read", "not read"]);
  expect(parserChoices(knownModel("llama-3.1-8b"), "tgi").map(({ choice }) => choice)).toEqual(["read"]);
});

test("each form has a parser in vLLM and SGLang, and a well-known model that writes it", () => {
  for (const parsers of [CALL_PARSERS, THOUGHT_PARSERS])
    for (const names of Object.values(parsers))
      expect(Object.keys(names)).toEqual(expect.arrayContaining(["vllm", "sglang"]));
  expect(new Set(KNOWN_MODELS.flatMap(({ toolCalls }) => toolCalls ?? []))).toEqual(new Set(Object.keys(CALL_PARSERS)));
  expect(new Set(KNOWN_MODELS.flatMap(({ thoughts }) => thoughts ?? []))).toEqual(
    new Set(Object.keys(THOUGHT_PARSERS)),
  );
});
