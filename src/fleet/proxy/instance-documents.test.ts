/**
 * The paths that need a key, at one engine's server and at the gateway; and the gateway's source for an engine's API
 * description.
 */
import { afterEach, describe, expect, it, test, vi } from "vitest";
import { type FakeServer, startFakeServer } from "../../../test/helpers/fake-server.js";
import { upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { answerJson, type FleetOptions, startFleet, type TestFleet } from "../../../test/helpers/stand-in.js";
import { Secret } from "../../core/config-values.js";
import { authorizeBy } from "../gateway/authorize.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closing.splice(0)) await close();
});

const KEY = "sk-mine";
const authorize = authorizeBy([{ tenant: "mine", key: new Secret(KEY) }]);

async function start(...args: Parameters<typeof startFleet>): Promise<TestFleet> {
  const fleet = await startFleet(...args);
  closing.push(() => fleet.stop());
  return fleet;
}

async function openEngine(): Promise<string> {
  const fake: FakeServer = await startFakeServer({}, { apiKeys: [KEY] });
  closing.push(() => fake.server.close());
  return fake.server.url;
}

async function openGateway(): Promise<string> {
  const url = await openEngine();
  const fleet = await start([answerJson({})], { proxy: { authorize } });
  const target = { url, apiKey: KEY, modelName: "fake" };
  fleet.pool.change("a", upstreamOf("a", { engine: "millrace", target }));
  return fleet.proxy.url;
}

describe.each([
  ["an engine's own door", openEngine],
  ["the gateway", openGateway],
] as const)("%s, with keys", (_, open) => {
  it.each([
    ["GET", "/health", 200],
    ["GET", "/openapi.json", 200],
    ["HEAD", "/openapi.json", 200],
    ["POST", "/openapi.json", 405],
    ["GET", "/v1/models", 401],
    ["GET", "/v1/models/m", 401],
    ["GET", "/v1/responses/r", 401],
    ["GET", "/tokenizer_info", 401],
    ["POST", "/tokenize", 401],
    ["POST", "/v1/chat/completions", 401],
    ["POST", "/v1/messages", 401],
  ] as const)("%s %s without a key is %i", async (method, path, status) => {
    const response = await fetch((await open()) + path, method === "POST" ? { method, body: "{}" } : { method });
    expect(response.status).toBe(status);
  });

  it("returns the API description without a key", async () => {
    const response = await fetch(`${await open()}/openapi.json`);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.json()).toMatchObject({
      openapi: "3.1.0",
      paths: { "/v1/chat/completions": expect.anything() },
    });
  });
});

const ask = ({ proxy }: TestFleet, query = "") => fetch(`${proxy.url}/openapi.json${query}`);
const codeOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string } };
  return [response.status, error.code];
};

test("each process is asked once, without a client's key", async () => {
  const fleet = await start([answerJson({ openapi: "3.1.0" })]);
  const target = { url: fleet.standIns[0]!.url, apiKey: "instance's own", modelName: undefined };
  fleet.pool.change("a", { target });
  for (let i = 0; i < 3; i++) expect(await (await ask(fleet)).json()).toEqual({ openapi: "3.1.0" });
  const [first, ...more] = fleet.standIns[0]!.received;
  expect([first!.path, first!.headers.authorization, more]).toEqual(["/openapi.json", undefined, []]);
  fleet.pool.change("a", { starts: 2 });
  await ask(fleet);
  expect(fleet.standIns[0]!.received).toHaveLength(2);
});

test("a request for a description takes no seat and starts no model", async () => {
  const started: string[] = [];
  const demand = (model: string) => started.push(model) > 0;
  const options: FleetOptions = { proxy: { demand }, limits: { maxWaiting: 0 } };
  const capacity = { seats: 0, kvTokens: undefined, blockSize: undefined };
  const fleet = await start([answerJson({})], { ...options, upstream: { capacity } });
  expect((await ask(fleet)).status).toBe(200);
  fleet.pool.change("a", { state: "stopped" });
  expect(await codeOf(await ask(fleet))).toEqual([503, "no_instance_ready"]);
  expect(started).toEqual([]);
});

test("a missing description, a failing engine and an unknown model are reported, and the next request asks again", async () => {
  const fleet = await start([answerJson({}, 404)]);
  const [standIn] = fleet.standIns;
  expect(await codeOf(await ask(fleet))).toEqual([404, "not_found"]);
  standIn!.behave = answerJson({}, 500);
  expect(await codeOf(await ask(fleet))).toEqual([502, "upstream_failed"]);
  standIn!.behave = (_, outgoing) => void outgoing.destroy();
  expect(await codeOf(await ask(fleet))).toEqual([502, "upstream_failed"]);
  standIn!.behave = answerJson({});
  expect((await ask(fleet, "?model=m")).status).toBe(200);
  expect(await codeOf(await ask(fleet, "?model=other"))).toEqual([404, "model_not_found"]);
});

test("a description may have at most eight mebibytes", async () => {
  const text = (numBytes: number) => JSON.stringify({ x: "" }).replace('""', `"${"x".repeat(numBytes - 8)}"`);
  const fleet = await start([answerJson({})]);
  const [standIn] = fleet.standIns;
  standIn!.behave = (_, outgoing) => void outgoing.end(text(2 ** 23 + 1));
  expect(await codeOf(await ask(fleet))).toEqual([502, "upstream_failed"]);
  standIn!.behave = (_, outgoing) => void outgoing.end(text(2 ** 23));
  expect((await (await ask(fleet)).text()).length).toBe(2 ** 23);
});

test("an engine has ten seconds to send its description", async () => {
  const limits: number[] = [];
  vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
    limits.push(ms);
    return AbortSignal.abort();
  });
  const fleet = await start([() => {}]);
  expect(await codeOf(await ask(fleet))).toEqual([502, "upstream_failed"]);
  expect(limits).toEqual([10_000]);
});
