import { afterEach, describe, expect, test, vi } from "vitest";
import {
  answerJson,
  type Behaviour,
  beginStream,
  passWhenAsked,
  sse,
  startFleet,
  type TestFleet,
  until,
} from "../../../test/helpers/stand-in.js";
import type { Caller } from "../../gateway/request.js";
import { RoutePolicy } from "../../gateway/routes/route-policy.js";
import { type ModelRoute, ROUTE_DEFAULTS } from "../../gateway/routes/route-table.js";
import { TermsPolicy } from "../../gateway/routes/terms-policy.js";

let fleet: TestFleet;
afterEach(() => {
  vi.useRealTimers();
  return fleet.stop();
});

const CHAT = "/v1/chat/completions";
const hello = (model: string, fields: object = {}) => ({
  model,
  messages: [{ role: "user", content: "Hello" }],
  ...fields,
});

interface Setup {
  readonly caller?: Caller;
  readonly timeouts?: object;
  readonly schedulesByPriority?: boolean;
  readonly engine?: "millrace" | "vllm";
}

/** Each behaviour is an instance of its own model: "a", "b", … */
async function start(route: Partial<ModelRoute>, behaviours: readonly Behaviour[], setup: Setup = {}): Promise<void> {
  const whole: ModelRoute = { ...ROUTE_DEFAULTS, name: "chat", ...route };
  const routes = new Map([whole.name, ...whole.aliases].map((name) => [name, whole]));
  const policy = new RoutePolicy({ routes: () => routes, sessionHeader: () => "x-session-id" });
  fleet = await startFleet(behaviours, {
    timeouts: setup.timeouts ?? {},
    proxy: {
      policies: [new TermsPolicy(), policy],
      virtualModels: () => [...routes.keys()],
      authorize: () => setup.caller ?? { tenant: "" },
      schedulesByPriority: () => setup.schedulesByPriority === true,
    },
  });
  for (const [i] of behaviours.entries()) {
    const id = String.fromCharCode(97 + i);
    fleet.pool.change(id, { model: id, engine: setup.engine ?? "vllm" });
  }
}

const says =
  (text: string): Behaviour =>
  (received, outgoing) =>
    answerJson({ text, model: received.body.model })(received, outgoing);
const fails = (status: number, error: object = {}): Behaviour => answerJson({ error }, status);
const to = (...models: string[]) => models.map((model) => ({ model, weight: 1 }));
const numReceived = () => fleet.standIns.map(({ received }) => received.length);

describe("a route's rules", () => {
  const rules = [
    { when: { tenant: ["acme"] }, to: to("b") },
    { when: { tools: true }, to: to("b") },
    { when: { promptTokens: { min: 100 } }, to: to("b") },
    { when: { responseFormat: ["json_schema"] as const }, to: to("b") },
    { when: { headers: { "x-tier": ["gold"] } }, to: to("b") },
    { when: { language: ["de"] as const }, to: to("b") },
    { when: { path: ["/v1/messages"] }, to: to("b") },
    { when: { model: ["big"] }, to: to("b") },
    { when: {}, to: to("a") },
  ];
  test.each<[string, string, object, Record<string, string>, Caller | undefined, string]>([
    ["nothing special", CHAT, hello("chat"), {}, undefined, "a"],
    ["a tenant", CHAT, hello("chat"), {}, { tenant: "acme" }, "b"],
    ["tools", CHAT, hello("chat", { tools: [{ type: "function" }] }), {}, undefined, "b"],
    ["empty tools", CHAT, hello("chat", { tools: [] }), {}, undefined, "a"],
    [
      "a long prompt",
      CHAT,
      hello("chat", { messages: [{ role: "user", content: "x".repeat(400) }] }),
      {},
      undefined,
      "b",
    ],
    ["a schema", CHAT, hello("chat", { response_format: { type: "json_schema" } }), {}, undefined, "b"],
    ["a header", CHAT, hello("chat"), { "x-tier": "gold" }, undefined, "b"],
    ["another header", CHAT, hello("chat"), { "x-tier": "silver" }, undefined, "a"],
    [
      "a language",
      CHAT,
      hello("chat", {
        messages: [{ role: "user", content: [{ type: "text", text: "Wie ist das Wetter und was soll ich?" }] }],
      }),
      {},
      undefined,
      "b",
    ],
    ["a path", "/v1/messages", hello("chat", { max_tokens: 5 }), {}, undefined, "b"],
    ["an alias", CHAT, hello("big"), {}, undefined, "b"],
  ])("%s", async (_, path, body, headers, caller, expected) => {
    await start({ rules, aliases: ["big"] }, [says("A"), says("B")], caller === undefined ? {} : { caller });
    const response = await fleet.post(path, body, { headers });
    expect(await response.json()).toEqual({ text: expected.toUpperCase(), model: expected });
    expect(response.headers.get("x-millrace-model")).toBe(expected);
  });

  test("no rule that holds is an error that says so", async () => {
    await start({ rules: [{ when: { tools: true }, to: to("a") }] }, [says("A")]);
    const response = await fleet.post(CHAT, hello("chat"));
    expect([response.status, await response.json()]).toMatchObject([404, { error: { code: "model_not_found" } }]);
  });

  test("real models stay as they are, and virtual ones are listed", async () => {
    await start({ rules: [{ when: {}, to: to("b") }], aliases: ["talk"] }, [says("A"), says("B")]);
    const response = await fleet.post(CHAT, hello("a"));
    expect([await response.json(), response.headers.get("x-millrace-model")]).toEqual([
      { text: "A", model: "a" },
      null,
    ]);
    const list = (await (await fetch(`${fleet.proxy.url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(list.data.map(({ id }) => id)).toEqual(["a", "b", "chat", "talk"]);
  });

  test("the rest of the body reaches the model byte for byte", async () => {
    await start({ rules: [{ when: {}, to: to("a") }] }, [says("A")]);
    await fleet.post(CHAT, `{"model": "chat",  "messages":[], "seed": 12345678901234567890}`);
    expect(fleet.standIns[0]!.received[0]!.text).toBe(`{"model": "a",  "messages":[], "seed": 12345678901234567890}`);
  });
});

describe("weights", () => {
  const rules = [
    {
      when: {},
      to: [
        { model: "a", weight: 3 },
        { model: "b", weight: 1 },
      ],
    },
  ];

  test("requests without a session split exactly", async () => {
    await start({ rules }, [says("A"), says("B")]);
    for (let i = 0; i < 40; i++) await fleet.post(CHAT, hello("chat"));
    expect(numReceived()).toEqual([30, 10]);
  });

  test("a session stays with its model", async () => {
    await start({ rules }, [says("A"), says("B")]);
    const models = new Set<string>();
    for (let session = 0; session < 24; session++) {
      const headers = { "x-session-id": `s${session}` };
      const first = (await fleet.post(CHAT, hello("chat"), { headers })).headers.get("x-millrace-model");
      const again = (await fleet.post(CHAT, hello("chat"), { headers })).headers.get("x-millrace-model");
      expect(again).toBe(first);
      models.add(first!);
    }
    expect(models).toEqual(new Set(["a", "b"]));
  });
});

describe("fallbacks", () => {
  const rules = [{ when: {}, to: to("a") }];

  test.each<[string, keyof NonNullable<ModelRoute["fallback"]>, Behaviour]>([
    ["500", "unavailable", fails(500)],
    ["a cut connection", "unavailable", (_, outgoing) => void outgoing.destroy()],
    ["429", "overload", fails(429)],
    ["too long a prompt", "context-length", fails(400, { code: "context_length_exceeded" })],
    ["Anthropic's word for it", "context-length", fails(400, { message: "prompt is too long: 9 tokens > 8 maximum" })],
    ["a content filter", "content-filter", fails(400, { code: "content_filter" })],
    ["an answer cut by a filter", "content-filter", answerJson({ choices: [{ finish_reason: "content_filter" }] })],
    ["no answer in time", "timeout", () => {}],
  ])("%s", async (_, errorClass, behaviour) => {
    const timeouts = errorClass === "timeout" ? { firstByteMs: 300 } : {};
    await start({ rules, fallback: { [errorClass]: ["b"] } }, [behaviour, says("B")], { timeouts });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const asked = fleet.post(CHAT, hello("chat"));
    if (errorClass === "timeout") await passWhenAsked(fleet.standIns[0]!, 300);
    const response = await asked;
    expect([response.status, await response.json()]).toEqual([200, { text: "B", model: "b" }]);
    vi.useRealTimers();
    expect(response.headers.get("x-millrace-model")).toBe("b");
    expect(response.headers.get("x-millrace-route")).toMatch(new RegExp(`^chat: a ${errorClass} \\(.+\\), b$`));
    await until(() => fleet.watched.ended.length === 1);
    expect(fleet.watched.ended).toEqual([{ outcome: "answered", status: 200 }]);
  });

  test("other classes have other targets, and an error of the request itself has none", async () => {
    await start({ rules, fallback: { overload: ["b"] } }, [fails(400, { code: "invalid_request" }), says("B")]);
    const bad = await fleet.post(CHAT, hello("chat"));
    expect([bad.status, await bad.json()]).toEqual([400, { error: { code: "invalid_request" } }]);
    fleet.standIns[0]!.behave = fails(500, { code: "boom" });
    expect((await fleet.post(CHAT, hello("chat"))).status).toBe(500);
    expect(numReceived()).toEqual([2, 0]);
  });

  test("each class leads on by its own list; every model is asked once, within the budget", async () => {
    const fallback = { overload: ["b", "c"], unavailable: ["a", "c", "d"] };
    await start({ rules, fallback, maxAttempts: 4 }, [fails(429), fails(500), fails(503), says("D")]);
    const response = await fleet.post(CHAT, hello("chat"));
    expect(response.headers.get("x-millrace-model")).toBe("d");
    expect(numReceived()).toEqual([1, 1, 1, 1]);
  });

  test("the last answer's error comes back, with the chain", async () => {
    const fallback = { overload: ["b"], unavailable: ["c"] };
    await start({ rules, fallback, maxAttempts: 2 }, [fails(429), fails(500, { code: "last" }), says("C")]);
    const response = await fleet.post(CHAT, hello("chat"));
    expect([response.status, await response.json()]).toEqual([500, { error: { code: "last" } }]);
    expect(response.headers.get("x-millrace-route")).toBe("chat: a overload (429), b");
    expect(numReceived()).toEqual([1, 1, 0]);
  });

  test("the last error without an answer comes back, with the chain", async () => {
    const cut: Behaviour = (_, outgoing) => void outgoing.destroy();
    await start({ rules, fallback: { overload: ["b"] } }, [fails(429), cut]);
    const response = await fleet.post(CHAT, hello("chat"));
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect([response.status, error.code]).toEqual([502, "upstream_failed"]);
    expect(error.message).toContain("(chat: a overload (429), then b unavailable (upstream_failed))");
  });

  test("the next model gets the client's own request", async () => {
    await start({ rules, fallback: { unavailable: ["b"] } }, [fails(500), says("B")]);
    await fleet.post(CHAT, `{"model":"chat", "messages" : [], "x": 1e2}`);
    expect(fleet.standIns[1]!.received[0]!.text).toBe(`{"model":"b", "messages" : [], "x": 1e2}`);
  });

  test("a stream that has begun is not begun again", async () => {
    await start({ rules, fallback: { unavailable: ["b"] } }, [
      (_, outgoing) => {
        beginStream(outgoing);
        outgoing.write(sse({ n: 1 }), () => outgoing.destroy());
      },
      says("B"),
    ]);
    const text = await (await fleet.post(CHAT, hello("chat", { stream: true }))).text();
    expect(text).toContain('"n":1');
    expect(text).toContain("upstream_failed");
    expect(numReceived()).toEqual([1, 0]);
  });

  test("a client that leaves ends the chain", async () => {
    const controller = new AbortController();
    await start({ rules, fallback: { unavailable: ["b"], timeout: ["b"] } }, [() => controller.abort(), says("B")]);
    await expect(fleet.post(CHAT, hello("chat"), { signal: controller.signal })).rejects.toThrow();
    await until(() => fleet.watched.ended.length === 1);
    expect([numReceived(), fleet.watched.ended]).toEqual([[1, 0], [{ outcome: "cancelled", status: 499 }]]);
  });
});

describe("priorities and deadlines", () => {
  const route = { rules: [{ when: {}, to: to("a") }] };
  const sent = () => fleet.standIns[0]!.received[0]!.body;

  test("a class goes to an engine that schedules by priority, in its own field", async () => {
    await start(route, [says("A")], { schedulesByPriority: true });
    await fleet.post(CHAT, hello("chat", { priority: 3 }), { headers: { "x-millrace-priority": "batch" } });
    expect(sent()).toEqual(hello("a", { priority: 100 }));
    expect(fleet.standIns[0]!.received[0]!.headers).not.toHaveProperty("x-millrace-priority");
  });

  test("and to no other", async () => {
    await start(route, [says("A")]);
    await fleet.post(CHAT, hello("chat"), { headers: { "x-millrace-priority": "-4" } });
    expect(sent()).toEqual(hello("a"));
  });

  test.each(["soon", "1.5", "", "1e99"])("a priority %j is refused", async (priority) => {
    await start(route, [says("A")]);
    const response = await fleet.post(CHAT, hello("chat"), { headers: { "x-millrace-priority": priority } });
    expect([response.status, numReceived()]).toEqual([400, [0]]);
  });

  test("our engine gets the time that is left", async () => {
    await start(route, [says("A")], { engine: "millrace" });
    await fleet.post(CHAT, hello("chat"), { headers: { "x-millrace-timeout": "20" } });
    expect(sent().timeout).toBeGreaterThan(15);
    expect(sent().timeout).toBeLessThanOrEqual(20);
  });

  test("a late answer is an error, and its computation is cancelled", async () => {
    await start(route, [() => {}]);
    const response = await fleet.post(CHAT, hello("chat"), { headers: { "x-millrace-timeout": "0.2" } });
    expect([response.status, await response.json()]).toMatchObject([504, { error: { code: "deadline_exceeded" } }]);
    await until(() => fleet.standIns[0]!.numCut === 1);
  });

  test("a late stream ends with the error", async () => {
    await start(route, [
      (_, outgoing) => {
        beginStream(outgoing);
        outgoing.write(sse({ n: 1 }));
      },
    ]);
    const headers = { "x-millrace-timeout": "0.2" };
    const text = await (await fleet.post(CHAT, hello("chat", { stream: true }), { headers })).text();
    expect(text).toMatch(/"param":"timeout","code":"deadline_exceeded".*\n\ndata: \[DONE\]\n\n$/);
    await until(() => fleet.watched.ended.length === 1);
    expect(fleet.watched.ended).toEqual([{ outcome: "broken", status: 200 }]);
  });
});
