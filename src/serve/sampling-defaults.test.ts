/** The server's defaults fill in fields that requests leave out, on every endpoint; the requests' own values win. */
import { expect, test } from "vitest";
import { ask } from "../../test/helpers/ask.js";
import { fakeAppOptions } from "../../test/helpers/fake-server.js";
import { createApp } from "./app.js";

const DEFAULTS = { temperature: 0.25, top_p: 0.75, top_k: 7, min_p: 0.125, repetition_penalty: 1.5 };
const MESSAGES = [{ role: "user", content: "hi" }];

const ENDPOINTS = [
  ["/v1/chat/completions", { messages: MESSAGES, max_tokens: 2 }],
  ["/v1/completions", { prompt: "hi", max_tokens: 2 }],
  ["/v1/responses", { input: "hi", max_output_tokens: 2 }],
  ["/v1/messages", { messages: MESSAGES, max_tokens: 2 }],
] as const;

async function samplingOf(path: string, body: object, samplingDefaults: object = DEFAULTS) {
  const { status, body: answer, fake } = await ask(path, body, {}, { samplingDefaults });
  expect(status).toBe(200);
  return { sampling: fake.engine.submitted[0]?.sampling, answer };
}

test.each(ENDPOINTS)("%s", async (path, body) => {
  const ofModel = { temperature: 0.25, topP: 0.75, topK: 7, minP: 0.125, repetitionPenalty: 1.5 };
  expect((await samplingOf(path, body)).sampling).toMatchObject(ofModel);
  const asked = await samplingOf(path, { ...body, temperature: 1, top_p: 1 });
  expect(asked.sampling).toMatchObject({ ...ofModel, temperature: 1, topP: 1 });
  const greedy = await samplingOf(path, { ...body, temperature: 0 });
  expect(greedy.sampling).toMatchObject({ temperature: 0 });
});

const OF_LLAMA = {
  presence_penalty: 0.5,
  frequency_penalty: -0.5,
  repeat_last_n: 64,
  typical_p: 0.5,
  top_n_sigma: 1.5,
  xtc_probability: 0.5,
  xtc_threshold: 0.25,
  dynatemp_range: 0.5,
  dynatemp_exponent: 2,
};

test.each(
  ENDPOINTS,
)("%s has samplers that its requests may not have, unless they ask for temperature 0", async (path, body) => {
  const defaults = { ...DEFAULTS, ...OF_LLAMA };
  const drawing = { xtc: { probability: 0.5, threshold: 0.25 }, dynamicTemperature: { range: 0.5, exponent: 2 } };
  const others = { presencePenalty: 0.5, frequencyPenalty: -0.5, penaltyWindow: 64, typicalP: 0.5, topNSigma: 1.5 };
  expect((await samplingOf(path, body, defaults)).sampling).toMatchObject({ ...others, ...drawing });
  const { sampling } = await samplingOf(path, { ...body, temperature: 0 }, defaults);
  expect(sampling).toMatchObject({ ...others, temperature: 0 });
  expect([sampling?.xtc, sampling?.dynamicTemperature]).toEqual([undefined, undefined]);
});

test("samplers of the request win, those that draw at temperature 0 too", async () => {
  const body = { ...ENDPOINTS[0][1], temperature: 0, xtc_probability: 1, repeat_last_n: 0, presence_penalty: 0 };
  const { sampling } = await samplingOf(ENDPOINTS[0][0], body, { ...DEFAULTS, ...OF_LLAMA });
  expect(sampling).toMatchObject({ xtc: { probability: 1, threshold: 0.25 }, penaltyWindow: 0, presencePenalty: 0 });
});

test("a nucleus of no mass, by default, leaves the likeliest token", async () => {
  const { sampling } = await samplingOf(ENDPOINTS[0][0], ENDPOINTS[0][1], { ...DEFAULTS, top_p: 0 });
  expect(sampling).toMatchObject({ topK: 1, topP: 1 });
});

test("responses repeat what was in force", async () => {
  const defaults = { ...DEFAULTS, presence_penalty: 0.5, frequency_penalty: -0.5 };
  const { answer } = await samplingOf("/v1/responses", { input: "hi", max_output_tokens: 2 }, defaults);
  expect(answer).toMatchObject({ temperature: 0.25, top_p: 0.75, presence_penalty: 0.5, frequency_penalty: -0.5 });
});

test("/v1/models tells them", async () => {
  const { options } = fakeAppOptions({}, { samplingDefaults: DEFAULTS });
  const list = await (await createApp(options).request("/v1/models")).json();
  expect(list).toMatchObject({ data: [{ id: "fake", default_sampling_params: DEFAULTS }] });
});
