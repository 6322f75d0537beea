/**
 * Three real engines behind the proxy, of which one is killed while all are busy: no request that had not begun to
 * stream fails, every answer that is whole is the right one, and those cut off say so.
 */
import { join } from "node:path";
import { expect, test } from "vitest";
import { DEFAULT_PROXY_LIMITS, DEFAULT_PROXY_TIMEOUTS } from "../../src/fleet/proxy/options.js";
import { startProxy } from "../../src/fleet/proxy/proxy.js";
import { DEFAULT_ROUTING } from "../../src/fleet/routing/router.js";
import { DEAF_REQUEST, type ProxyObserver } from "../../src/gateway/observer.js";
import { recordingLogger } from "../helpers/fake-server.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { TestPool, upstreamOf } from "../helpers/fleet-pool.js";
import { cases } from "../helpers/long.js";
import { startTestServer } from "../helpers/server.js";

const NUM_CLIENTS = 18;
const REQUESTS_EACH = 4;
const NUM_KINDS = 12;

interface StreamEvent {
  readonly choices?: readonly { readonly text: string }[];
  readonly error?: { readonly code: string };
}

/** Greedy ones and sampled ones with a seed: the same from every instance. */
const kinds = Array.from({ length: NUM_KINDS }, (_, i) => ({
  model: "mill-base",
  prompt: `Story ${i}: a miller and his ${["cat", "dog", "fox"][i % 3]} went to the river.`,
  max_tokens: cases(200, 500),
  ignore_eos: true,
  temperature: i % 2,
  seed: i,
}));

interface Seen {
  readonly text: string;
  readonly status: number;
  readonly errorCode: string | undefined;
  readonly isDone: boolean;
}

async function ask(url: string, kind: number, stream: boolean): Promise<Seen> {
  const body = JSON.stringify({ ...kinds[kind], stream });
  const response = await fetch(`${url}/v1/completions`, { method: "POST", body });
  const text = await response.text();
  const { status } = response;
  if (!stream || status !== 200) {
    const { choices, error } = JSON.parse(text) as StreamEvent;
    return { status, text: choices?.[0]?.text ?? "", errorCode: error?.code, isDone: choices !== undefined };
  }
  const events = text.split("\n\n").filter((event) => event !== "" && event !== "data: [DONE]");
  const parsed = events.map((event) => JSON.parse(event.slice("data: ".length)) as StreamEvent);
  return {
    status,
    text: parsed.map(({ choices }) => choices?.[0]?.text ?? "").join(""),
    errorCode: parsed.at(-1)?.error?.code,
    isDone: text.endsWith("data: [DONE]\n\n"),
  };
}

test("one of three instances is killed under load", async () => {
  const args = ["--model", join(repositoryRoot(), "models/mill-base.gguf"), "--threads", "1"];
  await using first = await startTestServer(args);
  await using second = await startTestServer(args);
  await using third = await startTestServer(args);
  const servers = [first, second, third];
  const capacity = { seats: 8, kvTokens: undefined, blockSize: undefined };
  const pool = new TestPool(
    servers.map(({ url }, i) => upstreamOf(`mill-${i}`, { url, model: "mill-base", engine: "millrace", capacity })),
  );
  const { logger } = recordingLogger();
  let numAnswered = 0;
  /** Kills the second instance as a stream from it begins, so that at least one answer is cut. */
  const observer: ProxyObserver = {
    refused() {},
    started({ isStream }) {
      let instance = "";
      return {
        ...DEAF_REQUEST,
        routed: (id) => {
          instance = id;
        },
        firstByte: () => {
          if (isStream && instance === "mill-1" && numAnswered >= NUM_CLIENTS) second.process.kill("SIGKILL");
        },
      };
    },
  };
  const proxy = await startProxy({
    pool,
    logger,
    host: "127.0.0.1",
    port: 0,
    routing: () => DEFAULT_ROUTING,
    authorize: () => ({ tenant: "" }),
    limits: DEFAULT_PROXY_LIMITS,
    timeouts: DEFAULT_PROXY_TIMEOUTS,
    observer,
  });
  try {
    const expected = await Promise.all(kinds.map((_, kind) => ask(proxy.url, kind, false)));
    expect(expected.every(({ isDone, text }) => isDone && text.length > 100)).toBe(true);
    const seen: (Seen & { readonly kind: number; readonly isStream: boolean })[] = [];
    const client = async (index: number) => {
      for (let i = 0; i < REQUESTS_EACH; i++) {
        const kind = (index * REQUESTS_EACH + i) % NUM_KINDS;
        const isStream = index % 2 === 0;
        seen.push({ ...(await ask(proxy.url, kind, isStream)), kind, isStream });
        numAnswered++;
      }
    };
    await Promise.all(Array.from({ length: NUM_CLIENTS }, (_, index) => client(index)));
    const cut = seen.filter(({ isDone }) => !isDone);
    for (const { status, text, kind } of seen) {
      expect(status).toBe(200);
      expect(expected[kind]!.text.startsWith(text)).toBe(true);
    }
    for (const { text, kind } of seen.filter(({ isDone }) => isDone)) expect(text).toBe(expected[kind]!.text);
    expect(seen.filter(({ isStream }) => !isStream).every(({ isDone }) => isDone)).toBe(true);
    expect(cut.length).toBeGreaterThan(0);
    for (const { isStream, errorCode } of cut) expect([isStream, errorCode]).toEqual([true, "upstream_failed"]);
    expect(new Set(pool.failures)).toEqual(new Set(["mill-1"]));
    for (const { id } of pool.upstreams("mill-base")) expect(proxy.numInFlight(id)).toBe(0);
  } finally {
    await proxy.close();
  }
});
