import { expect, test } from "vitest";
import { planModels } from "../plan-models.js";
import { checkConfig, parseConfig } from "./read-config.js";

const KEY = "api-key: a-key";
const AWS = "aws-region: us-east-1, access-key-id: an-id, secret-access-key: a-secret";

const problems = (model: string): string =>
  checkConfig(`models: [{ name: m, ${model} }]`, {})
    .problems.map(({ path, message }) => `${path}: ${message}`)
    .join("\n");

test.each([
  [
    "a paid API without a key",
    `engine: anthropic, attach: [{}]`,
    "models[0].attach[0]: expected api-key for anthropic, got none",
  ],
  [
    "Azure without an address",
    `engine: azure, attach: [{ ${KEY} }]`,
    "models[0].attach[0]: expected url for azure, got none",
  ],
  [
    "Bedrock without a region",
    `engine: bedrock, attach: [{ ${KEY} }]`,
    "models[0].attach[0]: expected aws-region for bedrock, got none",
  ],
  [
    "half of a pair of keys",
    `engine: bedrock, attach: [{ aws-region: eu-west-1, access-key-id: an-id }]`,
    "models[0].attach[0]: expected access-key-id, secret-access-key and aws-region together, for bedrock, got some of them",
  ],
  [
    "AWS's keys elsewhere",
    `engine: openai, attach: [{ ${AWS} }]`,
    "models[0].attach[0]: expected access-key-id, secret-access-key and aws-region together, for bedrock, got some of them",
  ],
  [
    "a key in the clear",
    `engine: google, attach: [{ url: "http://10.0.0.1", ${KEY} }]`,
    "models[0].attach[0].url: expected an https address for google, got an http one",
  ],
  [
    "a probe of a paid API",
    `engine: anthropic, attach: [{ ${KEY}, probe: true }]`,
    "models[0].attach[0].probe: expected no probe of anthropic, got one",
  ],
  [
    "a batch endpoint that is not known",
    `engine: google, provider: { batch-endpoint: true }, attach: [{ ${KEY} }]`,
    "models[0].provider.batch-endpoint: expected a paid API of openai or anthropic, whose batch endpoint takes lines, got the engine google",
  ],
  [
    "a batch endpoint of an engine of one's own",
    `engine: openai, provider: { batch-endpoint: true }, attach: [{ url: "http://127.0.0.1:1" }]`,
    "models[0].provider.batch-endpoint: expected a paid API of openai or anthropic, whose batch endpoint takes lines, got the engine openai with a probe",
  ],
  [
    "responses translated for an engine of one's own",
    `engine: openai, provider: { responses: translate }, attach: [{ url: "http://127.0.0.1:1" }]`,
    "models[0].provider.responses: expected pass for an engine of your own, got translate for openai with a probe",
  ],
  [
    "responses translated for another engine",
    `engine: vllm, provider: { responses: translate }, attach: [{ url: "http://127.0.0.1:1" }]`,
    "models[0].provider.responses: expected pass for an engine of your own, got translate for vllm",
  ],
  [
    "a model to load",
    `engine: google, model: gemini, attach: [{ ${KEY} }]`,
    "models[0].model: expected attach only for the engine google, got model",
  ],
  [
    "an engine without an address",
    `engine: vllm, attach: [{}]`,
    "models[0].attach[0]: expected the url of a vllm to attach to, got none",
  ],
  [
    "an engine below a path",
    `engine: vllm, attach: [{ url: "http://h/v1" }]`,
    "models[0].attach[0].url: expected an address without a path for vllm, got one",
  ],
  [
    "keys of paid APIs at an engine",
    `engine: vllm, attach: [{ url: "http://h", max-concurrency: 4 }]`,
    "models[0].attach[0].max-concurrency: expected max-concurrency for a paid API only, got it for vllm",
  ],
])("%s", (_, model, expected) => {
  expect(problems(model)).toBe(expected);
});

function attachedOf(model: string) {
  const config = parseConfig(`models: [{ name: m, ${model} }]`, "millrace.yaml", {});
  const [planned] = planModels(config, { cores: [], splits: new Map(), millraceSeats: 1 });
  return planned!.spec.attach![0]!;
}

const providerOf = (model: string) => attachedOf(model).provider;

/** The address of a model's requests, and the paid API's form if they have one. */
function targetOf(model: string) {
  const { url, provider, modelName } = attachedOf(model);
  return [url, provider?.basePath, provider?.maxTokensName, modelName];
}

test("a host's responses are translated where the configuration says so", () => {
  const host = `engine: openai, attach: [{ url: "http://127.0.0.1:8000", probe: false }]`;
  const model = `${host}, provider: { responses: translate }`;
  expect(problems(model)).toBe("");
  expect([host, model].map((each) => providerOf(each)?.responses)).toEqual(["pass", "translate"]);
});

test.each([
  [`engine: openai, attach: [{ ${KEY} }]`, ["https://api.openai.com", "/v1", "max_completion_tokens", "m"]],
  [
    `engine: openai, attach: [{ url: "https://openrouter.ai/api/v1/", ${KEY} }]`,
    ["https://openrouter.ai", "/api/v1", "max_tokens", "m"],
  ],
  [
    `engine: openai, attach: [{ url: "https://api.deepseek.com", ${KEY} }]`,
    ["https://api.deepseek.com", "/v1", "max_tokens", "m"],
  ],
  [`engine: openai, attach: [{ url: "http://10.0.0.1:8000" }]`, ["http://10.0.0.1:8000", undefined, undefined, "m"]],
  [
    `engine: openai, attach: [{ url: "https://10.0.0.1:8000", probe: true }]`,
    ["https://10.0.0.1:8000", undefined, undefined, "m"],
  ],
  [
    `engine: openai, attach: [{ url: "http://127.0.0.1:8000", probe: false }]`,
    ["http://127.0.0.1:8000", "/v1", "max_tokens", "m"],
  ],
  [
    `engine: anthropic, attach: [{ ${KEY}, model-name: claude }]`,
    ["https://api.anthropic.com", "", "max_tokens", "claude"],
  ],
  [`engine: google, attach: [{ ${KEY} }]`, ["https://generativelanguage.googleapis.com", "", "max_tokens", "m"]],
  [
    `engine: azure, attach: [{ url: "https://r.openai.azure.com", ${KEY} }]`,
    ["https://r.openai.azure.com", "", "max_completion_tokens", "m"],
  ],
  [`engine: bedrock, attach: [{ ${AWS} }]`, ["https://bedrock-runtime.us-east-1.amazonaws.com", "", "max_tokens", "m"]],
])("the address of %s", (model, expected) => {
  expect(problems(model)).toBe("");
  expect(targetOf(model)).toEqual(expected);
});
