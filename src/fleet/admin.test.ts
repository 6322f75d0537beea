import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { text } from "node:stream/consumers";
import { Hono } from "hono";
import { afterEach, expect, test } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { Secret } from "../core/config-values.js";
import { Sessions } from "../core/sign-in/sessions.js";
import { LiveFeed } from "../observe/live/feed.js";
import { History } from "../observe/live/history.js";
import { readingOf } from "../observe/live/load.js";
import { TenantWatch } from "../observe/live/tenant-watch.js";
import { type AdminTarget, adminHandler } from "./admin.js";
import { operatorsOf } from "./config/sections/operators.js";

let server: Server | undefined;
afterEach(() => {
  server?.close();
  server?.closeAllConnections();
});

const instance: ReturnType<AdminTarget["instances"]>[number] = {
  id: "org/m-0",
  model: "org/m",
  engine: "vllm",
  state: "ready",
  starts: 1,
  metrics: undefined,
  inFlight: 2,
  target: { url: "http://127.0.0.1:8101", apiKey: "sk-inside", modelName: undefined },
  capacity: { seats: 4, kvTokens: undefined, blockSize: undefined },
  isAttached: false,
  reason: undefined,
  isComing: false,
  isGivenUp: false,
  pid: 42,
  logFile: "/logs/m-0.log",
};

async function start(adminKey: string | undefined, needsKeys = false, reports?: string, bodyTimeoutMs = 60_000) {
  const done: string[] = [];
  const readings = (atMs: number) => new Map([["tenant=acme", readingOf([], atMs)]]);
  const tenants = new TenantWatch({ readings });
  tenants.take(Date.now());
  const live = new LiveFeed(async () => "up 1\n", new History(), { tenants });
  const target: AdminTarget = {
    instances: () => [instance],
    drain: async (id) => void done.push(`drain ${id}`),
    restart: async (id) => void done.push(`restart ${id}`),
    scale: (model, instances) => {
      done.push(`scale ${model} ${instances}`);
      return { instances: Math.min(instances, 4), limitedBy: instances > 4 ? "max" : undefined };
    },
    load: async (_, name) => name ?? "m",
    unload: async () => {},
    isLoaded: () => false,
    models: () => ({ data: [] }),
    library: undefined,
    metrics: async () => ({ text: "up 1\n", contentType: "text/plain" }),
    tenantMetrics: () => "by_tenant 1\n",
    live,
    parts: [new Hono().get("/quality", (c) => c.json({}))],
    reports,
    requests: async ({ limit }) => ({ rows: [], kept: limit }),
    needsKeys: () => needsKeys,
    clientWith: () => ({ tenant: "" }),
    sessions: new Sessions(),
    operators: () =>
      operatorsOf({ adminKey: adminKey === undefined ? undefined : new Secret(adminKey), operators: [] }),
    bodyTimeoutMs: () => bodyTimeoutMs,
    inBackground: () => {},
  };
  const handle = adminHandler(target);
  server = createServer((incoming, outgoing) => {
    if (!handle(incoming, outgoing, "request-1")) outgoing.writeHead(418).end();
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = async (method: string, path: string, key?: string, body?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const answer = await fetch(url + path, { method, headers, ...(body === undefined ? {} : { body }) });
    const isEndless = answer.headers.get("content-type") === "text/event-stream";
    if (isEndless) await answer.body?.cancel();
    return { status: answer.status, text: isEndless ? "" : await answer.text() };
  };
  return { ask, done };
}

const ID = encodeURIComponent("org/m-0");

test("instances are listed, without their keys", async () => {
  const { ask } = await start("boss");
  const { status, text } = await ask("GET", "/admin/instances", "boss");
  expect(status).toBe(200);
  expect(JSON.parse(text)).toMatchObject({
    object: "list",
    data: [{ id: "org/m-0", state: "ready", in_flight: 2, url: "http://127.0.0.1:8101" }],
  });
  expect(text).not.toContain("sk-inside");
});

test("the last requests are for the administrator, and for everybody where nobody has a key", async () => {
  const path = "/watch/requests?limit=7";
  const boss = await start("boss");
  expect((await boss.ask("GET", path)).status).toBe(401);
  const { status, text } = await boss.ask("GET", path, "boss");
  expect([status, JSON.parse(text)]).toEqual([200, { object: "list", data: [], kept: 7 }]);
  expect((await boss.ask("GET", "/watch/requests?limit=0", "boss")).text).toContain("limit: expected an integer");
  server?.close();
  const open = await start(undefined);
  expect((await open.ask("GET", path)).status).toBe(200);
  server?.close();
  const keyed = await start(undefined, true);
  expect((await keyed.ask("GET", path)).status).toBe(404);
});

test("figures by tenant are for operators, and for everybody where nobody has a key", async () => {
  const paths = ["/metrics/tenants", "/watch/tenants", "/watch/live?tenant=acme", "/watch/history?tenant=acme"];
  const statuses = async ({ ask }: Awaited<ReturnType<typeof start>>, key?: string) =>
    await Promise.all(paths.map(async (path) => (await ask("GET", path, key)).status));
  const boss = await start("boss");
  expect(await statuses(boss)).toEqual([401, 401, 401, 401]);
  expect(await statuses(boss, "sk-client")).toEqual([401, 401, 401, 401]);
  expect(await statuses(boss, "boss")).toEqual([200, 200, 200, 200]);
  expect((await boss.ask("GET", "/watch/history?tenant=shop", "boss")).status).toBe(404);
  expect((await boss.ask("GET", "/metrics/tenants", "boss")).text).toBe("by_tenant 1\n");
  for (const key of [undefined, "sk-client", "boss"]) {
    const { status, text } = await boss.ask("GET", "/metrics", key);
    expect([status, text]).toEqual([200, "up 1\n"]);
    const series = JSON.parse((await boss.ask("GET", "/watch/series", key)).text) as { data: object[] };
    expect(series.data).toEqual(key === "boss" ? [{ kind: "tenant", name: "acme", is_current: true }] : []);
  }
  server?.close();
  expect(await statuses(await start(undefined))).toEqual([200, 200, 200, 200]);
});

test("reports are listed for those who see requests, and a page opens by its link alone", async () => {
  expect((await (await start("boss")).ask("GET", "/watch/reports", "boss")).text).toContain("it needs reports:");
  server?.close();
  const root = tempTree({ "plan.html": "<p>plan</p>" });
  const { ask } = await start("boss", false, root);
  expect((await ask("GET", "/watch/reports")).status).toBe(401);
  const { text } = await ask("GET", "/watch/reports", "boss");
  const { page } = (JSON.parse(text) as { data: { page: string }[] }).data[0]!;
  expect(await ask("GET", `/${page}`)).toEqual({ status: 200, text: "<p>plan</p>" });
  expect((await ask("GET", `/${page.slice(0, -2)}`)).status).toBe(404);
  expect((await ask("GET", "/watch/reports/..%2f..%2fetc/page", "boss")).status).toBe(404);
});

test("draining, restarting and scaling, also of models with a slash", async () => {
  const { ask, done } = await start("boss");
  expect((await ask("POST", `/admin/instances/${ID}/drain`, "boss")).status).toBe(202);
  expect((await ask("POST", `/admin/instances/${ID}/restart`, "boss")).status).toBe(202);
  const scaled = await ask("POST", "/admin/models/org/m/scale", "boss", '{"instances": 9}');
  const hint = "the configuration limits org/m to max: 4; change it there, and send SIGHUP";
  const limited = { model: "org/m", instances: 4, asked: 9, limited_by: "max", hint };
  expect([scaled.status, JSON.parse(scaled.text)]).toEqual([202, limited]);
  const whole = await ask("POST", "/admin/models/org/m/scale", "boss", '{"instances": 3}');
  expect(JSON.parse(whole.text)).toEqual({ model: "org/m", instances: 3 });
  expect(done).toEqual(["drain org/m-0", "restart org/m-0", "scale org/m 9", "scale org/m 3"]);
});

test.each([
  ["no key", "GET", "/admin/instances", undefined, undefined, 401],
  ["another key", "GET", "/admin/instances", "guess", undefined, 401],
  ["an unknown instance", "POST", "/admin/instances/x/drain", "boss", undefined, 404],
  ["an unknown path", "GET", "/admin/secrets", "boss", undefined, 404],
  ["an unknown action", "POST", `/admin/instances/${ID}/explode`, "boss", undefined, 404],
  ["no number", "POST", "/admin/models/m/scale", "boss", '{"instances": "two"}', 400],
  ["no JSON", "POST", "/admin/models/m/scale", "boss", "{", 400],
] as const)("%s is refused", async (_, method, path, key, body, status) => {
  const { ask, done } = await start("boss");
  const answer = await ask(method, path, key, body);
  expect(answer.status).toBe(status);
  expect(JSON.parse(answer.text)).toHaveProperty("error.code");
  expect(done).toEqual([]);
});

test.each([
  ["/admin/ledger/spend?group_by=day", "got GET /admin/ledger/spend; it needs ledger: {} in the gateway's file"],
  ["/admin/keys", "got GET /admin/keys; it needs managed-keys: true in the gateway's file"],
  ["/admin/quality/none", "got GET /admin/quality/none; docs/guides/ has the paths of each part"],
  ["/admin/constructor", "got GET /admin/constructor; docs/guides/ has the paths of each part"],
])("%s says what turns a part on that is off", async (path, message) => {
  const { ask } = await start("boss");
  expect(JSON.parse((await ask("GET", path, "boss")).text).error.message).toContain(message);
});

test("without a configured administrator's key all administration requests are refused", async () => {
  const { ask } = await start(undefined);
  expect((await ask("GET", "/admin/instances", "")).status).toBe(404);
  expect((await ask("POST", `/admin/instances/${ID}/drain`, "boss")).status).toBe(404);
});

test("metrics need no key, and other paths are left to other handlers", async () => {
  const { ask } = await start(undefined);
  expect(await ask("GET", "/metrics")).toEqual({ status: 200, text: "up 1\n" });
  expect((await ask("GET", "/dashboard")).status).toBe(418);
});

test("a body under /admin that does not come in time is refused, does nothing, and its connection ends", async () => {
  const { done } = await start("k", false, undefined, 30);
  const { port } = server!.address() as AddressInfo;
  const path = "/admin/models/m/scale";
  for (const framing of ["Content-Length: 16", "Transfer-Encoding: chunked"]) {
    const socket = connect(port, "127.0.0.1");
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk;
    });
    const slow = framing.startsWith("T") ? "1\r\n{\r\n" : "{";
    socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\n${framing}\r\n\r\n${slow}`);
    await once(socket, "close");
    expect(received).toMatch(/^HTTP\/1.1 408 .*"code":"request_timeout"/s);
  }
  expect(done).toEqual([]);
});

test("requests under /admin do without a body, whatever their method", async () => {
  const { ask } = await start("k");
  expect((await ask("POST", `/admin/instances/${ID}/drain`, "k")).status).toBe(202);
  const { port } = server!.address() as AddressInfo;
  const socket = connect(port, "127.0.0.1");
  socket.write("TRACE /admin/nothing HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n");
  expect(await text(socket)).toMatch(/^HTTP\/1.1 404 /);
});

test("no body under /admin fills the memory, whatever length it names", async () => {
  const { ask, done } = await start("k");
  const tooMuch = " ".repeat(64 * 1024 + 1);
  expect((await ask("POST", "/admin/models/m/scale", "k", tooMuch)).status).toBe(413);
  const stream = new Blob([tooMuch]).stream();
  const init = { method: "POST", body: stream, duplex: "half", headers: { authorization: "Bearer k" } } as const;
  const { port } = server!.address() as AddressInfo;
  expect((await fetch(`http://127.0.0.1:${port}/admin/models/m/scale`, init)).status).toBe(413);
  const most = '{"instances": 2}'.padEnd(64 * 1024);
  expect((await ask("POST", "/admin/models/m/scale", "k", most)).status).toBe(202);
  expect(done).toEqual(["scale m 2"]);
});
