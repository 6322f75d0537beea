/** What requests leave out is as the server's defaults say, on every endpoint; what they say wins. */
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

async function samplingOf(path: string, body: object, samplingDefaults = DEFAULTS) {
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

test("a nucleus of no mass, by default, leaves the likeliest token", async () => {
  const { sampling } = await samplingOf(ENDPOINTS[0][0], ENDPOINTS[0][1], { ...DEFAULTS, top_p: 0 });
  expect(sampling).toMatchObject({ topK: 1, topP: 1 });
});

test("responses repeat what was in force", async () => {
  const { answer } = await samplingOf("/v1/responses", { input: "hi", max_output_tokens: 2 });
  expect(answer).toMatchObject({ temperature: 0.25, top_p: 0.75 });
});

test("/v1/models tells them", async () => {
  const { options } = fakeAppOptions({}, { samplingDefaults: DEFAULTS });
  const list = await (await createApp(options).request("/v1/models")).json();
  expect(list).toMatchObject({ data: [{ id: "fake", default_sampling_params: DEFAULTS }] });
});
