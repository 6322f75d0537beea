/**
 * A gateway's description of its models for Ollama's clients: facts of its own engine, and none of another engine's
 * nonsense.
 */
import { afterEach, expect, it } from "vitest";
import { type FakeServer, startFakeServer } from "../../../test/helpers/fake-server.js";
import { upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { answerJson, startFleet, type TestFleet } from "../../../test/helpers/stand-in.js";
import { STARTED_AT_SECONDS } from "../../core/model-list.js";

let fake: FakeServer | undefined;
let fleet: TestFleet;

afterEach(async () => {
  await fleet.stop();
  await fake?.server.close();
  fake = undefined;
});

interface Told {
  readonly models: readonly {
    readonly model: string;
    readonly size: number;
    readonly digest: string;
    readonly modified_at: string;
    readonly details: { readonly family: string };
  }[];
  readonly capabilities: readonly string[];
  readonly model_info: Readonly<Record<string, unknown>>;
  readonly error: string;
}

const ask = async (path: string, body?: object): Promise<Told> =>
  (await (await (body === undefined ? fetch(fleet.proxy.url + path) : fleet.post(path, body))).json()) as Told;

it("has our own engine's facts, asked for once", async () => {
  fake = await startFakeServer({}, { apiKeys: ["sk-inside"] });
  fleet = await startFleet([answerJson({})]);
  const target = { url: fake.server.url, apiKey: "sk-inside", modelName: "fake" };
  fleet.pool.change("a", upstreamOf("a", { engine: "millrace", target }));
  const { details, size, digest } = (await ask("/api/tags")).models[0]!;
  const { family } = details;
  expect(size).toBe(fake.engine.info.weightBytes);
  expect(digest).toMatch(/^[0-9a-f]{64}$/);
  expect(family).toBe(fake.engine.info.architecture);
  await fake.server.close();
  expect((await ask("/api/show", { model: "m:latest" })).model_info).toMatchObject({ "general.architecture": family });
  expect((await ask("/api/ps")).models[0]).toMatchObject({ model: "m:latest", details: { family } });
});

it("has the length of other engines' models, and lists as running what is ready", async () => {
  fleet = await startFleet([answerJson({ details: { family: "made up" } })], {
    upstream: { capacity: { seats: undefined, kvTokens: undefined, blockSize: undefined, maxModelLen: 512 } },
  });
  const shown = await ask("/api/show", { name: "m" });
  expect(shown).toMatchObject({ capabilities: ["completion"], model_info: { "unknown.context_length": 512 } });
  const [listed] = (await ask("/api/tags")).models;
  expect(listed!.details.family).toBe("");
  expect(Date.parse(listed!.modified_at)).toBe(1000 * STARTED_AT_SECONDS);
  expect((await ask("/api/ps")).models).toMatchObject([{ context_length: 512 }]);
  fleet.pool.change("a", { state: "failed" });
  expect((await ask("/api/ps")).models).toEqual([]);
});

it.each([["nonsense"], [{ details: "none" }], [[]]])("takes no details from an answer of %j", async (answer) => {
  fleet = await startFleet([answerJson(answer as object)], { upstream: { engine: "millrace" } });
  expect((await ask("/api/tags")).models[0]!.details.family).toBe("");
});

it.each([
  ["/api/show", { model: "absent" }, 404],
  ["/api/pull", { model: "absent" }, 404],
  ["/api/pull", {}, 404],
  ["/api/show", [], 400],
  ["/api/show", { name: 7 }, 400, "got 7"],
  ["/api/pull", { model: { toString: 1 } }, 400, "model: expected a model's name as a string, got an object"],
  ["/api/pull", { name: ["mill-base"] }, 400, "name: expected a model's name as a string, got an array of 1"],
])("%s of %j is refused with a text", async (path, body, status, text = "expected") => {
  fleet = await startFleet([answerJson({})]);
  const answer = await fleet.post(path, body);
  expect(answer.status).toBe(status);
  expect(((await answer.json()) as Told).error).toContain(text);
});
