/**
 * What every engine behind an adapter must do, whether it is the real one or a stand-in that speaks its documented
 * interface.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ADAPTERS } from "../../src/fleet/adapters/index.js";
import type { ModelSpec } from "../../src/fleet/upstream/model-spec.js";
import type { Upstream } from "../../src/fleet/upstream/upstream.js";
import { modelSpec, type TestFleet, testFleet } from "./fleet.js";

interface ConformanceSubject {
  /** For the test's title. */
  readonly kind: "stand-in" | "real";
  readonly spec: Partial<ModelSpec> & Pick<ModelSpec, "engine" | "options">;
  /** Fields that make an answer go on to max_tokens. */
  readonly longAnswer?: object;
  /** Of an answer that is still running while the test looks; nobody waits for its end. */
  readonly longTokens: number;
  /** What the engine must say of its size, where it can. */
  readonly capacity: Partial<Upstream["capacity"]>;
  /** Time that one start may take. Default: 20 s */
  readonly startTimeoutMs?: number;
  /** Why this build of the engine cannot sleep, though its adapter can ask it to. */
  readonly sleepless?: string;
}

interface Answer {
  readonly status: number;
  readonly events: readonly string[];
}

interface ChatOptions {
  readonly key?: string | undefined;
  readonly signal?: AbortSignal;
  /** Called with the first part of the answer. */
  readonly onBegin?: () => void;
}

/** A streamed chat completion, as the proxy would send it. */
async function chat(upstream: Upstream, fields: object, options: ChatOptions = {}): Promise<Answer> {
  const { url, modelName } = upstream.target!;
  const { key = upstream.target?.apiKey, signal, onBegin } = options;
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({
      model: modelName ?? "any name",
      messages: [{ role: "user", content: "Say hello." }],
      stream: true,
      ...fields,
    }),
    ...(signal === undefined ? {} : { signal }),
  });
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    onBegin?.();
    text += chunk;
  }
  return { status: response.status, events: text.split("\n\n").filter((event) => event.startsWith("data: ")) };
}

/** Resolves `begun` when the engine has begun to answer. */
function beginChat(upstream: Upstream, fields: object, signal?: AbortSignal) {
  let onBegin = (): void => {};
  const begun = new Promise<void>((resolve) => {
    onBegin = resolve;
  });
  const answer = chat(upstream, fields, { onBegin, ...(signal === undefined ? {} : { signal }) });
  return { begun, answer };
}

async function readyFleet(spec: ModelSpec): Promise<{ readonly fleet: TestFleet; readonly upstream: Upstream }> {
  const fleet = testFleet();
  fleet.supervisor.addModel(spec);
  return { fleet, upstream: await fleet.supervisor.whenReady("m") };
}

export function describeConformance({
  kind,
  spec: own,
  longAnswer,
  longTokens,
  capacity,
  startTimeoutMs = 20_000,
  sleepless,
}: ConformanceSubject): void {
  const spec = modelSpec({ ...own, startTimeoutMs });
  const timeoutMs = 40_000 + 2 * startTimeoutMs;
  const adapter = ADAPTERS[spec.engine];

  describe(`${spec.engine} (${kind})`, () => {
    it(
      "starts from our options, answers a chat as a stream, and counts it",
      async () => {
        const { fleet, upstream } = await readyFleet(spec);
        await using _ = fleet;
        expect(upstream).toMatchObject({ state: "ready", starts: 1, capacity });
        const { status, events } = await chat(upstream, { max_tokens: 4 });
        expect(status).toBe(200);
        expect(events.length).toBeGreaterThan(1);
        expect(events.at(-1)).toBe("data: [DONE]");
        if (adapter.metricsPath === undefined) return;
        const { metrics } = await fleet.until(
          (each) => (each.metrics?.generationTokens ?? 0) > 0 && each.metrics?.numRunning === 0,
        );
        expect(metrics?.numWaiting).toBe(0);
        expect(metrics?.promptTokens).toBeGreaterThan(0);
      },
      timeoutMs,
    );

    it(
      "shows a running request, and ends it when its connection closes",
      async () => {
        const { fleet, upstream } = await readyFleet(spec);
        await using _ = fleet;
        const client = new AbortController();
        const { begun, answer } = beginChat(upstream, { max_tokens: longTokens, ...longAnswer }, client.signal);
        await begun;
        if (adapter.metricsPath !== undefined) await fleet.until(({ metrics }) => metrics?.numRunning === 1);
        client.abort();
        await expect(answer).rejects.toThrow("abort");
        if (adapter.metricsPath === undefined) return;
        const { metrics } = await fleet.until((each) => each.metrics?.numRunning === 0);
        expect(metrics?.generationTokens).toBeLessThan(longTokens);
      },
      timeoutMs,
    );

    const { abort } = adapter;
    if (abort !== undefined) {
      it(
        "ends a request by its id",
        async () => {
          const { fleet, upstream } = await readyFleet(spec);
          await using _ = fleet;
          const other = beginChat(upstream, { max_tokens: 100, rid: "other" });
          const { begun, answer } = beginChat(upstream, { max_tokens: longTokens, ...longAnswer, rid: "one" });
          await begun;
          await abort(upstream.target!, "one");
          expect((await answer).events.join()).toMatch(/"finish_reason": ?"abort"/);
          const { events } = await other.answer;
          expect(events.at(-1)).toBe("data: [DONE]");
          expect(events.join()).not.toMatch(/"finish_reason": ?"abort"/);
        },
        timeoutMs,
      );
    }

    it(
      "finishes running requests before it is stopped",
      async () => {
        const { fleet, upstream } = await readyFleet(spec);
        await using _ = fleet;
        const { begun, answer } = beginChat(upstream, { max_tokens: 100, ...longAnswer });
        await begun;
        // Who tells nothing about itself is stopped by the proxy's count alone: fleet.test.ts.
        if (adapter.metricsPath === undefined) return void (await answer);
        await fleet.supervisor.setInstances("m", 0);
        expect((await answer).events.at(-1)).toBe("data: [DONE]");
        expect(fleet.supervisor.upstreams("m")[0]?.state).toBe("stopped");
      },
      timeoutMs,
    );

    it(
      "is ready again after kill -9",
      async () => {
        const { fleet } = await readyFleet(spec);
        await using _ = fleet;
        const { pid } = fleet.supervisor.instances()[0]!;
        process.kill(pid!, "SIGKILL");
        const again = await fleet.until(({ state, starts }) => state === "ready" && starts === 2, timeoutMs);
        expect(again.pid).not.toBe(pid);
        expect((await chat(again, { max_tokens: 2 })).status).toBe(200);
      },
      timeoutMs,
    );

    if (spec.options.apiKey !== undefined) {
      it(
        "wants the key that it was given, which is on no command line",
        async () => {
          const { fleet, upstream } = await readyFleet(spec);
          await using _ = fleet;
          expect((await chat(upstream, { max_tokens: 2 }, { key: "another" })).status).toBe(401);
          expect((await chat(upstream, { max_tokens: 2 })).status).toBe(200);
          const { pid } = fleet.supervisor.instances()[0]!;
          const commandLine = process.platform === "linux" ? readFileSync(`/proc/${pid}/cmdline`, "utf8") : "";
          // SGLang takes it no other way.
          expect(commandLine.includes(spec.options.apiKey!)).toBe(spec.engine === "sglang");
        },
        timeoutMs,
      );
    }

    // A build that refuses to sleep is no fault of the adapter; the skip is listed by name, with the reason that the
    // build gives.
    if (adapter.sleep !== undefined && sleepless !== undefined) it.skip(`cannot sleep: ${sleepless}`, () => {});
    else if (adapter.sleep !== undefined) {
      it(
        "sleeps instead of ending, and wakes up in the same process",
        async () => {
          const { fleet, upstream } = await readyFleet({ ...spec, scaleDown: "sleep" });
          await using _ = fleet;
          const { pid } = fleet.supervisor.instances()[0]!;
          await fleet.supervisor.setInstances("m", 0);
          expect(fleet.supervisor.instances()).toMatchObject([{ state: "asleep", pid }]);
          // Ollama loads the model again whenever it is asked.
          if (spec.engine !== "ollama") expect((await chat(upstream, { max_tokens: 2 })).status).not.toBe(200);
          await fleet.supervisor.setInstances("m", 1);
          expect(fleet.supervisor.instances()).toMatchObject([{ state: "ready", pid, starts: 1 }]);
          expect((await chat(upstream, { max_tokens: 2 })).status).toBe(200);
        },
        timeoutMs,
      );
    }
  });
}
