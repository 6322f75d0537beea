/** Attached servers: their states follow their health, and the fleet does not start, stop or configure them. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { modelSpec, testFleet } from "../../../test/helpers/fleet.js";
import type { UpstreamTarget } from "../upstream/upstream.js";

interface FakeServer extends AsyncDisposable {
  readonly target: UpstreamTarget;
  health: number;
  /** Accepts requests and answers none. */
  isSilent: boolean;
  readonly asked: string[];
  down(): Promise<void>;
  up(): Promise<void>;
}

async function fakeServer(): Promise<FakeServer> {
  const asked: string[] = [];
  let server: Server | undefined;
  let port = 0;
  const fake: FakeServer = {
    health: 200,
    isSilent: false,
    asked,
    get target() {
      return { url: `http://127.0.0.1:${port}`, apiKey: "sk", modelName: "theirs" };
    },
    async up() {
      server = createServer((request, response) => {
        asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
        if (fake.isSilent) return;
        const isMetrics = request.url === "/metrics";
        response.writeHead(isMetrics ? 200 : fake.health).end(isMetrics ? "vllm:num_requests_running 2\n" : "");
      });
      await new Promise<void>((resolve) => server?.listen(port, "127.0.0.1", resolve));
      port = (server.address() as AddressInfo).port;
    },
    async down() {
      server?.closeAllConnections();
      await new Promise((resolve) => server?.close(resolve));
      server = undefined;
    },
    [Symbol.asyncDispose]: async () => {
      if (server !== undefined) await fake.down();
    },
  };
  await fake.up();
  return fake;
}

const QUICK = { scrapeMs: 10, healthMs: 10 };

describe("an attached server", () => {
  it("is ready with its metrics when it is healthy, and counts a new start each time it returns", async () => {
    await using server = await fakeServer();
    await using fleet = testFleet({ timing: QUICK });
    fleet.supervisor.addModel(modelSpec({ instances: 0, attach: [server.target] }));
    expect(await fleet.supervisor.whenReady("m")).toMatchObject({
      id: "m-attached-0",
      target: server.target,
      starts: 1,
      isAttached: true,
      pid: undefined,
    });
    await fleet.until(({ metrics }) => metrics?.numRunning === 2);
    await server.down();
    const down = await fleet.until(({ state }) => state === "failed");
    expect(down.reason).toBe("expected an answer to GET /health, got ECONNREFUSED");
    await server.up();
    await fleet.until(({ state, starts }) => state === "ready" && starts === 2);
    expect(server.asked).toContain("GET /health Bearer sk");
  });

  it("may be busy for a while, but fails if it stays unhealthy", async () => {
    await using server = await fakeServer();
    await using fleet = testFleet({ timing: QUICK });
    fleet.supervisor.addModel(modelSpec({ instances: 0, attach: [server.target] }));
    await fleet.supervisor.whenReady("m");
    server.health = 503;
    const checks = () => server.asked.filter((line) => line.includes("/health")).length;
    const before = checks();
    const doubted = await fleet.until(({ state }) => state === "suspect");
    expect(doubted).toMatchObject({ isComing: true, reason: "expected 200 from GET /health, got 503" });
    const { reason } = await fleet.until(({ state }) => state === "failed");
    expect(reason).toBe("expected 200 from GET /health, got 503");
    expect(checks() - before).toBeGreaterThanOrEqual(3);
  });

  it("is checked at once when the proxy doubts it", async () => {
    await using server = await fakeServer();
    await using fleet = testFleet({ timing: { scrapeMs: 3_600_000, healthMs: 3_600_000 } });
    fleet.supervisor.addModel(modelSpec({ instances: 0, attach: [server.target] }));
    await fleet.supervisor.whenReady("m");
    await server.down();
    await fleet.supervisor.reportFailure("m-attached-0");
    expect(fleet.supervisor.upstreams("m")).toMatchObject([{ state: "failed", isComing: false }]);
    await fleet.supervisor.reportFailure("nobody");
  });

  it("that is stopped before its first answer leaves nobody waiting for its health", async () => {
    await using server = await fakeServer();
    server.isSilent = true;
    await using fleet = testFleet({ timing: QUICK });
    fleet.supervisor.addModel(modelSpec({ instances: 0, attach: [server.target] }));
    await expect.poll(() => server.asked.length).toBe(1);
    const doubt = fleet.supervisor.reportFailure("m-attached-0");
    await fleet.supervisor.drain("m-attached-0");
    await Promise.all([doubt, fleet.supervisor.reportFailure("m-attached-0")]);
    expect(fleet.supervisor.upstreams("m")).toMatchObject([{ state: "stopped" }]);
  }, 5000);

  it("that does not exist yet is awaited", async () => {
    await using server = await fakeServer();
    await server.down();
    await using fleet = testFleet({ timing: QUICK });
    fleet.supervisor.addModel(modelSpec({ instances: 0, attach: [server.target] }));
    await fleet.until(({ state }) => state === "failed");
    await server.up();
    await fleet.supervisor.whenReady("m");
  });

  it("of any engine is recognised by its list of models", async () => {
    await using server = await fakeServer();
    await using fleet = testFleet({ timing: QUICK });
    const { program: _, ...spec } = modelSpec({ engine: "openai", instances: 0, attach: [server.target] });
    fleet.supervisor.addModel(spec);
    expect(await fleet.supervisor.whenReady("m")).toMatchObject({ engine: "openai", metrics: undefined });
    server.health = 500;
    expect((await fleet.until(({ state }) => state === "failed")).reason).toBe(
      "expected 200 from GET /v1/models, got 500",
    );
    expect(new Set(server.asked)).toEqual(new Set(["GET /v1/models Bearer sk"]));
  });

  it("is left running when it is removed, and can be added again", async () => {
    await using server = await fakeServer();
    await using fleet = testFleet({ timing: QUICK });
    fleet.supervisor.addModel(modelSpec({ instances: 0, attach: [server.target] }));
    await fleet.supervisor.whenReady("m");
    await fleet.supervisor.drain("m-attached-0");
    expect(fleet.supervisor.upstreams("m")).toMatchObject([{ state: "stopped" }]);
    await expect(fleet.supervisor.whenReady("m")).rejects.toMatchObject({ code: "instance_failed" });
    await fleet.supervisor.restart("m-attached-0");
    await fleet.supervisor.whenReady("m");
    await fleet.until(({ metrics }) => metrics !== undefined);
    // Capacity and metrics are requested at the same time.
    await expect
      .poll(() => new Set(server.asked))
      .toEqual(
        new Set([
          "GET /v1/models Bearer sk",
          "GET /health Bearer sk",
          "GET /metrics Bearer sk",
          "POST /tokenize Bearer sk",
        ]),
      );
  });
});

describe("a supervisor", () => {
  it("refuses impossible settings", async () => {
    await using fleet = testFleet();
    const { supervisor } = fleet;
    supervisor.addModel(modelSpec({ instances: 0 }));
    expect(() => supervisor.addModel(modelSpec())).toThrow("expected each model once");
    const { program: _, ...openai } = modelSpec({ name: "o", engine: "openai" });
    expect(() => supervisor.addModel(openai)).toThrow("expected no instances of engine openai, got 1");
    expect(() =>
      supervisor.addModel(modelSpec({ name: "u", attach: [{ url: "x", apiKey: undefined, modelName: undefined }] })),
    ).toThrow("expected the URL");
    await expect(supervisor.setInstances("m", -1)).rejects.toMatchObject({ code: "invalid_option" });
    await expect(supervisor.setInstances("x", 1)).rejects.toMatchObject({ code: "model_not_found" });
    await expect(supervisor.whenReady("m")).rejects.toMatchObject({ code: "instance_failed" });
    expect(() => supervisor.restart("m-0")).toThrow("expected the id of an instance");
    await supervisor.close();
    expect(() => supervisor.addModel(modelSpec({ name: "late" }))).toThrow("shutting down");
    expect(supervisor.models()).toEqual(["m"]);
    expect(supervisor.upstreams("x")).toEqual([]);
  });
});
