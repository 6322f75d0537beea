/** The gateway's last requests, in front of a real engine's server and a stand-in for another engine. */
import { afterEach, expect, it } from "vitest";
import { type FakeServer, recordingLogger, startFakeServer, until } from "../../../test/helpers/fake-server.js";
import { upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { answerJson, startFleet, type TestFleet } from "../../../test/helpers/stand-in.js";
import { requestLogOf } from "../../observe/live/request-log.js";
import { type RequestRow, readQuery } from "../../observe/live/request-rows.js";
import { Inspector } from "./inspector.js";

let fake: FakeServer;
let fleet: TestFleet;
let inspector: Inspector;

afterEach(async () => {
  await fleet.stop();
  await fake.server.close();
});

const failing = answerJson({ error: { message: "out of memory" } }, 500);

/** Instance `a` is our own engine's server; `b`, with `withFailing`, fails every request. */
async function start(withFailing = false, logger = recordingLogger().logger): Promise<void> {
  fake = await startFakeServer({}, { logger });
  inspector = new Inspector(() => fleet.pool.upstreams("m"), requestLogOf(logger));
  fleet = await startFleet(withFailing ? [answerJson({}), failing] : [answerJson({})], {
    proxy: { observer: inspector },
  });
  const target = { url: fake.server.url, apiKey: undefined, modelName: "fake" };
  fleet.pool.change("a", upstreamOf("a", { engine: "millrace", target }));
}

async function complete(id: string, body: object = {}): Promise<number> {
  const answer = await fetch(`${fleet.proxy.url}/v1/completions`, {
    method: "POST",
    headers: { "x-request-id": id },
    body: JSON.stringify({ model: "m", prompt: "abc", max_tokens: 4, ...body }),
  });
  await answer.text();
  return answer.status;
}

const rows = async (query = ""): Promise<readonly RequestRow[]> =>
  (await inspector.find(readQuery(new URLSearchParams(query)))).rows;

const PARTS = ["policies_ms", "routing_ms", "prepare_ms", "queue_ms", "prefill_ms", "decode_ms"] as const;

it("has the gateway's parts and the instance's, which sum up to no more than the whole", async () => {
  await start();
  expect(await complete("one", { stream: true })).toBe(200);
  const [row] = await rows();
  expect(row).toMatchObject({
    id: "one",
    model: "m",
    instance: "a",
    outcome: "answered",
    status: 200,
    output_tokens: 4,
    finish_reason: "length",
  });
  const sum = PARTS.reduce((all, name) => all + row![name]!, 0);
  expect(sum).toBeLessThanOrEqual(row!.total_ms! + 1e-6);
  expect(row!.ttft_ms).toBeCloseTo(sum - row!.decode_ms!, 6);
});

it("keeps what an instance has told, and asks again only of the rest", async () => {
  await start();
  await complete("kept");
  const [before] = await rows();
  await fake.server.close();
  expect(await rows()).toEqual([before]);
  fake = await startFakeServer();
});

it("has an engine's refusals with their codes", async () => {
  await start();
  expect(await complete("bad", { max_tokens: -2 })).toBe(400);
  await complete("good");
  expect((await rows("failed=true")).map(({ id, status, error_code }) => [id, status, error_code])).toEqual([
    ["bad", 400, "invalid_parameter"],
  ]);
  expect((await rows("id=good&id=bad")).map(({ id }) => id)).toEqual(["good", "bad"]);
});

it("tells of instances that did not take a request, and of requests that nobody took", async () => {
  await start(true);
  fleet.pool.change("a", { state: "failed" });
  await complete("lost");
  const [row] = await rows();
  expect(row).toMatchObject({ id: "lost", instance: "b" });
  expect(row!.status).toBeGreaterThanOrEqual(500);
  expect(row!.output_tokens).toBeUndefined();
  expect(row!.routing_ms).toBeGreaterThanOrEqual(0);
  // Complete answers of other engines show the gateway no first token.
  expect(row!.ttft_ms).toBeUndefined();
});

it("leaves out the parts of requests that share an id, also where one of them is not shown", async () => {
  await start();
  await complete("twice");
  await complete("twice", { max_tokens: 2 });
  await complete("once");
  const tokensOf = (all: readonly RequestRow[]) => all.map(({ id, output_tokens }) => [id, output_tokens]);
  expect(tokensOf(await rows("limit=2"))).toEqual([
    ["once", 4],
    ["twice", undefined],
  ]);
});

it("asks of many long ids in portions, each for itself", async () => {
  await start();
  const ids = Array.from({ length: 50 }, (_, i) => `${i}:`.padEnd(128, ":"));
  for (const id of ids) await complete(id);
  const [standIn] = fleet.standIns;
  const asked: string[] = [];
  standIn!.behave = ({ path }, outgoing) => {
    asked.push(path);
    const row = { at_ms: 1, path: "/v1/completions", model: "m", tenant: "", outcome: "answered", output_tokens: 7 };
    const found = new URL(path, "http://engine").searchParams.getAll("id").map((id) => ({ ...row, id }));
    answerJson(asked.length === 1 ? {} : { object: "list", data: found, kept: 1000 })({} as never, outgoing);
  };
  fleet.pool.change("a", upstreamOf("a", { engine: "millrace", url: standIn!.url }));
  const tokens = (await rows()).map(({ output_tokens }) => output_tokens);
  expect(asked.length).toBeGreaterThan(2);
  for (const path of asked) expect(path.length).toBeLessThan(8300);
  const numFirst = asked[0]!.split("&id=").length - 1;
  expect(tokens).toEqual(ids.map((_, at) => (at < numFirst ? undefined : 7)));
});

it("leaves out the parts of an instance that answers with nonsense or not at all", async () => {
  await start();
  await complete("one");
  fleet.pool.change("a", upstreamOf("a", { engine: "millrace", url: fleet.standIns[0]!.url }));
  const [row] = await rows();
  expect(row).toMatchObject({ id: "one", outcome: "answered" });
  expect(row!.output_tokens).toBeUndefined();
});

it("leaves a line with the request's id in the log of the gateway and of the engine, at level debug only", async () => {
  const { logger, lines } = recordingLogger();
  await start(false, { ...logger, isLevelEnabled: () => true });
  await complete("one", { stream: true });
  const ended = () => lines.filter(({ message }) => message === "request answered");
  await until(() => ended().length === 2, "a line of the gateway and one of the engine");
  const of = (model: string) => ended().find(({ fields }) => fields.model === model);
  expect(of("m")).toMatchObject({ level: "debug", fields: { requestId: "one", instance: "a", status: 200 } });
  expect(of("fake")).toMatchObject({ level: "debug", fields: { requestId: "one", output_tokens: 4, status: 200 } });
  expect(JSON.stringify(lines)).not.toContain("abc");
  await fleet.stop();
  await fake.server.close();

  const quiet = recordingLogger();
  await start(false, { ...quiet.logger, isLevelEnabled: () => false });
  await complete("two");
  expect(quiet.lines).toEqual([]);
});
