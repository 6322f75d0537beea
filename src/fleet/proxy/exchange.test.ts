/** A request's way through the proxy, as its client, the observer and the log see it, and its place in the queue. */
import { afterEach, describe, expect, test } from "vitest";
import {
  answerJson,
  type Behaviour,
  beginStream,
  type FleetOptions,
  sse,
  startFleet,
  type TestFleet,
  until,
} from "../../../test/helpers/stand-in.js";
import { MillraceError } from "../../core/errors.js";
import type { ProxyObserver, RequestStart } from "../../gateway/observer.js";
import { type KeySource, TextKeySource } from "../routing/key-source.js";

let fleet: TestFleet;
afterEach(async () => {
  await fleet.stop();
});

const PATH = "/v1/chat/completions";
const request = { model: "m", messages: [] };
const ok = answerJson({ ok: true });
const never: Behaviour = () => {};
const breakOff: Behaviour = (_, outgoing) => {
  beginStream(outgoing);
  outgoing.write(sse({ n: 1 }), () => outgoing.destroy());
};

/** Records all that it hears. */
function listen() {
  const heard = { started: [] as RequestStart[], ended: [] as unknown[][], refused: [] as unknown[][] };
  const observer: ProxyObserver = {
    started: (start) => {
      heard.started.push(start);
      return {
        routed() {},
        retried() {},
        firstByte() {},
        ended: (...how) => heard.ended.push(how),
      };
    },
    refused: (...what) => heard.refused.push(what),
  };
  return { heard, observer };
}

async function start(behaviour: Behaviour, options: FleetOptions = {}) {
  const { heard, observer } = listen();
  fleet = await startFleet([behaviour], { ...options, proxy: { observer, ...options.proxy } });
  return { ...fleet, heard };
}

/** Sends a request whose client leaves once the instance has it, and waits until the observer hears of its end. */
async function leaveWhileRunning({ heard, post, standIns }: Awaited<ReturnType<typeof start>>): Promise<void> {
  const leaving = new AbortController();
  post(PATH, request, { signal: leaving.signal }).catch(() => {});
  await until(() => standIns[0]!.received.length === 1);
  leaving.abort();
  await until(() => heard.ended.length === 1);
}

const failures = () => fleet.lines.map(({ level, fields: { code } }) => [level, code]);

describe("the observer is told", () => {
  test.each([
    ["a stream", { stream: true }, true],
    ["a whole answer", { stream: false }, false],
    ["a whole answer, as nothing is said", {}, false],
  ])("that a request asks for %s, and its tenant", async (_, fields, isStream) => {
    const { heard, post } = await start(ok, { proxy: { authorize: () => ({ tenant: "mine" }) } });
    await post(PATH, { ...request, ...fields });
    expect(heard.started).toMatchObject([{ path: PATH, model: "m", tenant: "mine", isStream }]);
    await until(() => heard.ended.length === 1);
    expect(heard).toMatchObject({ ended: [["answered", 200, undefined]], refused: [] });
    expect(failures()).toEqual([]);
  });

  test("only the path of a refusal before the model is known, and the end of a request that fails later", async () => {
    const { heard, pool, post } = await start(ok);
    expect((await post(PATH, { ...request, model: "other" })).status).toBe(404);
    pool.change("a", { state: "failed" });
    expect((await post(PATH, request)).status).toBe(503);
    expect(heard.refused).toEqual([[PATH, "model_not_found"]]);
    expect(heard.ended).toEqual([["failed", 503, "no_instance_ready"]]);
    expect(failures()).toEqual([
      ["debug", "model_not_found"],
      ["warn", "no_instance_ready"],
    ]);
  });

  test("that a request is cancelled if its client leaves while it runs", async () => {
    const started = await start(never);
    await leaveWhileRunning(started);
    expect(started.heard.ended).toEqual([["cancelled", 499, "client_closed"]]);
  });

  test("that a request is cancelled if its client leaves while its prompt is tokenized", async () => {
    const tokenized: string[] = [];
    const keysOf: KeySource["keysOf"] = (_body, _path, _numBytes, _scope, owner) =>
      new Promise((_, reject) => {
        owner!.watch!(() => reject(new MillraceError("client_closed", "gone")));
        tokenized.push(owner!.tenant);
      });
    const { heard, post, standIns } = await start(ok, { proxy: { keySource: () => ({ tokensPerBlock: 16, keysOf }) } });
    const leaving = new AbortController();
    post(PATH, request, { signal: leaving.signal }).catch(() => {});
    await until(() => tokenized.length === 1);
    leaving.abort();
    await until(() => heard.ended.length === 1);
    expect(heard.ended).toMatchObject([["cancelled", expect.any(Number), "client_closed"]]);
    expect(standIns[0]!.received).toEqual([]);
  });

  test("that an interrupted answer is broken, and so are the log and the pool", async () => {
    const { heard, pool, post } = await start(breakOff);
    await (await post(PATH, { ...request, stream: true })).text();
    await until(() => heard.ended.length === 1);
    expect(heard.ended).toEqual([["broken", 200, "upstream_failed"]]);
    expect(pool.failures).toEqual(["a"]);
    expect(failures()).toEqual([["warn", "upstream_failed"]]);
  });

  test("that a request failed if the gateway ends while it waits", async () => {
    const { heard, post, proxy, standIns } = await start(never, { timeouts: { drainMs: 0 } });
    const response = post(PATH, request);
    await until(() => standIns[0]!.received.length === 1);
    await proxy.drain();
    expect((await response).status).toBe(503);
    expect(heard.ended).toEqual([["failed", 503, "shutting_down"]]);
  });
});

test("a fleet without an observer answers, fails and refuses like any other", async () => {
  const { pool, post } = await start(ok, { proxy: { observer: undefined } as FleetOptions["proxy"] & object });
  expect((await post(PATH, request)).status).toBe(200);
  expect((await post(PATH, { ...request, model: "other" })).status).toBe(404);
  pool.change("a", { state: "failed" });
  expect((await post(PATH, request)).status).toBe(503);
});

test("a client's departure after tokenization is not reported to the tokenizer", async () => {
  let hasLeft = 0;
  const keysOf: KeySource["keysOf"] = async (body, path, numBytes, scope, owner) => {
    const endWatch = owner!.watch!(() => hasLeft++);
    endWatch();
    return await new TextKeySource().keysOf(body, path, numBytes, scope);
  };
  await leaveWhileRunning(await start(never, { proxy: { keySource: () => ({ tokensPerBlock: 16, keysOf }) } }));
  expect(hasLeft).toBe(0);
});

test("an instance gets the whole conversation that a request continues, and a token count is not stored as a response", async () => {
  const text = { type: "output_text", text: "aye", annotations: [] };
  const output = [{ type: "message", id: "msg_1", role: "assistant", status: "completed", content: [text] }];
  const { post, standIns } = await start(answerJson({ id: "resp_1", object: "response", status: "completed", output }));
  const first = (await (await post("/v1/responses", { model: "m", input: "one" })).json()) as { id: string };
  const next = { model: "m", input: "two", previous_response_id: first.id };
  await post("/v1/responses", next);
  const { received } = standIns[0]!;
  expect(received[1]!.body.previous_response_id ?? null).toBeNull();
  expect(received[1]!.text).toMatch(/"one".*"aye".*"two"/s);
  const counted = await post("/v1/responses/input_tokens", next);
  expect(await counted.json()).not.toHaveProperty("store");
  expect(received[2]!.text).toMatch(/"one".*"aye".*"two"/s);
});

describe("a GET names its model in the query", () => {
  const get = (query: string) => fetch(`${fleet.proxy.url}/tokenizer_info${query}`);

  test("and has no body", async () => {
    const { standIns } = await start(ok);
    expect((await get("?model=m")).status).toBe(200);
    expect(standIns[0]!.received).toMatchObject([{ text: "" }]);
    expect((await get("?model=other")).status).toBe(404);
  });

  test("or omits it if the fleet has only one model", async () => {
    const { standIns } = await start(ok);
    expect((await get("")).status).toBe(200);
    expect(standIns[0]!.received).toHaveLength(1);
  });
});

test.each<[string, number | undefined, readonly string[]]>([
  ["its own", undefined, ["urgent", "patient"]],
  ["its key's instead of its own", 3, ["patient", "urgent"]],
])("a request waits for a seat with %s priority", async (_, priority, order) => {
  const capacity = { seats: 1, kvTokens: undefined, blockSize: undefined };
  const authorize = () => ({ tenant: "", priority });
  const answers: (() => void)[] = [];
  const held: Behaviour = (_received, outgoing) => answers.push(() => outgoing.end("{}"));
  const { post, proxy, standIns } = await start(held, { upstream: { capacity }, proxy: { authorize } });
  const send = async (name: string, ofRequest: number, numWaiting: number) => {
    const response = post(PATH, { ...request, user: name, priority: ofRequest });
    await until(() => proxy.numWaiting("m") === numWaiting && standIns[0]!.received.length === 1);
    return { response };
  };
  const sent = [await send("first", 0, 0), await send("patient", 5, 1), await send("urgent", 1, 2)];
  for (let n = 1; n <= 3; n++) {
    await until(() => answers.length === n);
    answers[n - 1]!();
  }
  for (const { response } of sent) await (await response).text();
  expect(standIns[0]!.received.map(({ body }) => body.user)).toEqual(["first", ...order]);
  // The engine gets the request's own priority, for its batch.
  const own = { first: 0, patient: 5, urgent: 1 } as Readonly<Record<string, number>>;
  for (const { body } of standIns[0]!.received) expect(body.priority).toBe(own[String(body.user)]);
});

test("a field in another case, which an upstream might read as the field, is refused and not sent", async () => {
  const { post, standIns } = await start(ok);
  const response = await post(PATH, { ...request, MAX_TOKENS: 9 });
  expect(response.status).toBe(400);
  expect((await response.json()) as object).toMatchObject({ error: { code: "unknown_field", param: "MAX_TOKENS" } });
  expect(standIns[0]!.received).toHaveLength(0);
});
