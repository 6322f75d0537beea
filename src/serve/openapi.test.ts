/** The API description matches the served paths, and its schemas accept the same requests as the server. */
import Ajv from "ajv/dist/2020.js";
import { expect, it } from "vitest";
import { ask } from "../../test/helpers/ask.js";
import { fakeAppOptions } from "../../test/helpers/fake-server.js";
import { createApp } from "./app.js";

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly responses: {
    readonly 200: { readonly content: { readonly "application/json": { readonly schema: object } } };
  };
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly schema: object } } };
}

const app = createApp(fakeAppOptions().options);
const described = async () =>
  (await (await app.request("/openapi.json")).json()) as {
    readonly openapi: string;
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  };

it("names each operation once, and those that are served", async () => {
  const { openapi, paths } = await described();
  expect(openapi).toBe("3.1.0");
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => ({ path, method, operationId })),
  );
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
  for (const { path, method } of operations) {
    if (path === "/kv_events") continue;
    const init = { method: method.toUpperCase(), ...(method === "post" ? { body: "{}" } : {}) };
    const { status } = await app.request(path.replace(/{\w+}/, "fake"), init);
    expect([path, method, status === 405]).toEqual([path, method, false]);
  }
  expect(paths["/v1/responses/{id}"]).toHaveProperty("delete");
});

it.each(["/watch/history", "/watch/requests"])("%s answers as its schema says", async (path) => {
  await ask("/v1/completions", { prompt: "a", max_tokens: 2 });
  const { paths } = await described();
  const { responses, parameters } = paths[path]!.get!;
  const schema = responses[200].content["application/json"].schema;
  const isValid = new Ajv.default({ strict: false }).compile(schema);
  const answer: unknown = await (await app.request(path)).json();
  expect([isValid(answer), isValid.errors]).toEqual([true, null]);
  expect(isValid({ window: 3, requests: [{}] })).toBe(false);
  expect(parameters?.every((each) => each.in === "query")).toBe(true);
});

const hi = [{ role: "user", content: "hi" }];
it.each([
  ["/v1/chat/completions", { messages: hi, temperature: 0.5, tools: [], stop: ["a"], user: "me" }, { temperature: 3 }],
  ["/v1/completions", { prompt: "a", max_tokens: 3, logit_bias: { 5: 1 } }, { max_tokens: "3" }],
  ["/v1/responses", { input: "a", store: false, include: [] }, { store: "no" }],
  ["/v1/messages", { max_tokens: 3, messages: hi, system: "b" }, { max_tokens: 0 }],
  ["/v1/embeddings", { input: ["a", "b"], encoding_format: "base64" }, { encoding_format: "hex" }],
  ["/tokenize", { prompt: "a" }, { prompt: 1 }],
])("%s takes what its schema takes", async (path, body, wrong) => {
  const { paths } = await described();
  const schema = paths[path]?.post?.requestBody?.content["application/json"].schema ?? expect.fail("no schema");
  const isValid = new Ajv.default({ strict: false }).compile(schema);
  expect([isValid(body), isValid.errors]).toEqual([true, null]);
  expect((await ask(path, body)).status).toBe(200);
  for (const bad of [
    { ...body, ...wrong },
    { ...body, temprature: 1 },
  ]) {
    expect(isValid(bad)).toBe(false);
    expect((await ask(path, bad)).status).toBe(400);
  }
});
