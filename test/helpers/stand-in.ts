/** HTTP servers that behave as a test says, where an engine would be; and the proxy in front of them. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { vi } from "vitest";
import { DEFAULT_PROXY_LIMITS, DEFAULT_PROXY_TIMEOUTS, type ProxyOptions } from "../../src/fleet/proxy/options.js";
import { type RunningProxy, startProxy } from "../../src/fleet/proxy/proxy.js";
import { DEFAULT_ROUTING } from "../../src/fleet/routing/router.js";
import type { TokenUsage } from "../../src/gateway/api/usage.js";
import type { Outcome, ProxyObserver } from "../../src/gateway/observer.js";
import { type LogLine, recordingLogger, until as waitUntil } from "./fake-server.js";
import { TestPool, type UpstreamFields, upstreamOf } from "./fleet-pool.js";

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export type Behaviour = (received: Received, outgoing: ServerResponse) => void;

interface StandIn {
  readonly url: string;
  readonly received: Received[];
  /** Requests whose connection closed before they were answered. */
  numCut: number;
  behave: Behaviour;
  /** Ends every connection without a word, as a killed process does, and listens no more. */
  die(): Promise<void>;
}

/** @example await startStandIn((_, outgoing) => outgoing.end("{}")) */
export async function startStandIn(behaviour: Behaviour): Promise<StandIn> {
  const server = createServer(async (incoming, outgoing) => {
    // Who asks whether this is an engine of ours, that tells of its cache, is not what tests are about.
    if (incoming.url === "/kv_events") return void outgoing.writeHead(404).end();
    let text = "";
    for await (const chunk of incoming) text += chunk;
    const body = text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
    const received = { path: incoming.url!, headers: incoming.headers, text, body };
    standIn.received.push(received);
    outgoing.on("close", () => {
      if (!outgoing.writableFinished) standIn.numCut++;
    });
    standIn.behave(received, outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const standIn: StandIn = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: [],
    numCut: 0,
    behave: behaviour,
    die: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return standIn;
}

export const sse = (value: unknown): string => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;

export function beginStream(outgoing: ServerResponse): void {
  outgoing.writeHead(200, { "Content-Type": "text/event-stream" });
}

export const answerJson =
  (value: object, status = 200): Behaviour =>
  (_, outgoing) => {
    outgoing.writeHead(status, { "Content-Type": "application/json" });
    outgoing.end(JSON.stringify(value));
  };

interface Watched {
  numStarted: number;
  readonly routed: string[];
  readonly retried: string[];
  readonly hedged: string[];
  readonly used: TokenUsage[];
  readonly ended: { readonly outcome: Outcome; readonly status: number }[];
  readonly refused: string[];
}

function watching(): { readonly observer: ProxyObserver; readonly watched: Watched } {
  const watched: Watched = { numStarted: 0, routed: [], retried: [], hedged: [], used: [], ended: [], refused: [] };
  const request = {
    routed: (id: string) => watched.routed.push(id),
    retried: (id: string) => watched.retried.push(id),
    hedged: (id: string) => watched.hedged.push(id),
    firstByte() {},
    used: (usage: TokenUsage) => watched.used.push(usage),
    ended: (outcome: Outcome, status: number) => watched.ended.push({ outcome, status }),
  };
  return {
    watched,
    observer: {
      started: () => {
        watched.numStarted++;
        return request;
      },
      refused: (_, code) => watched.refused.push(code),
    },
  };
}

export interface TestFleet {
  readonly proxy: RunningProxy;
  readonly pool: TestPool;
  readonly standIns: readonly StandIn[];
  readonly watched: Watched;
  readonly lines: readonly LogLine[];
  post(path: string, body: unknown, init?: RequestInit): Promise<Response>;
  stop(): Promise<void>;
}

export interface FleetOptions {
  readonly limits?: Partial<ProxyOptions["limits"]>;
  readonly timeouts?: Partial<ProxyOptions["timeouts"]>;
  readonly upstream?: UpstreamFields;
  readonly proxy?: Partial<ProxyOptions>;
}

/**
 * One instance "a", "b", … of model "m" for each behaviour. Routed by turns, so that tests know where a request goes.
 */
export async function startFleet(behaviours: readonly Behaviour[], options: FleetOptions = {}): Promise<TestFleet> {
  const standIns = await Promise.all(behaviours.map(startStandIn));
  const upstreams = standIns.map(({ url }, i) => upstreamOf(String.fromCharCode(97 + i), { url, ...options.upstream }));
  const pool = new TestPool(upstreams);
  const { observer, watched } = watching();
  const { logger, lines } = recordingLogger();
  const proxy = await startProxy({
    pool,
    observer,
    logger,
    host: "127.0.0.1",
    port: 0,
    routing: () => ({ ...DEFAULT_ROUTING, policy: "round-robin" }),
    authorize: () => ({ tenant: "" }),
    limits: { ...DEFAULT_PROXY_LIMITS, ...options.limits },
    timeouts: { ...DEFAULT_PROXY_TIMEOUTS, ...options.timeouts },
    ...options.proxy,
  });
  return {
    proxy,
    pool,
    standIns,
    watched,
    lines,
    post: (path, body, init = {}) =>
      fetch(`${proxy.url}${path}`, {
        method: "POST",
        body: typeof body === "string" ? body : JSON.stringify(body),
        ...init,
      }),
    stop: async () => {
      await proxy.close();
      await Promise.all(standIns.map((standIn) => standIn.die()));
    },
  };
}

/** Waits for something that other sockets decide, without a fixed pause. */
export const until = (holds: () => boolean): Promise<void> => waitUntil(holds, holds.toString());

/**
 * Lets the time pass that a silent instance has, on a clock of the test's: no other instance loses time of its own,
 * however busy the machine is.
 */
export async function passWhenAsked({ received }: StandIn, ms: number): Promise<void> {
  while (received.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await vi.advanceTimersByTimeAsync(ms);
}

/**
 * Until a count stands still over many turns of the event loop, each of which looks at the sockets: a busy machine is
 * no quiet one.
 */
export async function quiet(count: () => number): Promise<void> {
  let last = count();
  for (let numStill = 0; numStill < 20 || last === 0; ) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    numStill = last === count() ? numStill + 1 : 0;
    last = count();
  }
}

/** The status of a refusal, and its code. */
export async function refusalOf(response: Response): Promise<readonly [status: number, code: string]> {
  const { error } = (await response.json()) as { error: { code: string } };
  return [response.status, error.code];
}
