/**
 * /v1/responses with state, with the official client: at one engine's server, and at the gateway, whose instances keep
 * nothing.
 */
import OpenAI, { NotFoundError } from "openai";
import { afterEach, describe, expect, it } from "vitest";
import { type FakeServer, startFakeServer, until } from "../../../test/helpers/fake-server.js";
import { EOS_ID, fakeTokenizer } from "../../../test/helpers/fake-tokenizer.js";
import { upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { answerJson, startFleet } from "../../../test/helpers/stand-in.js";
import { MillraceError } from "../../core/errors.js";
import { DEFAULT_STORE_LIMITS } from "../../core/response-store.js";
import type { ProxyOptions } from "./options.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface OpenDoor {
  readonly fake: FakeServer;
  readonly model: string;
  client(key?: string): OpenAI;
}

type Limits = Pick<ProxyOptions, "responseLimits">;

const KEYS = ["mine", "theirs"];
/** Answers "aye", or never ends. */
const script = ({ promptIds }: { readonly promptIds: Int32Array }) =>
  fakeTokenizer.decode(promptIds).includes("endless") ? [97] : [...Buffer.from("aye"), EOS_ID];

async function openEngine(limits: Limits = {}): Promise<OpenDoor> {
  const fake = await startFakeServer({ script }, { apiKeys: KEYS, ...limits });
  closing.push(() => fake.server.close());
  const client = (apiKey = "mine") => new OpenAI({ apiKey, baseURL: `${fake.server.url}/v1`, maxRetries: 0 });
  return { fake, model: "fake", client };
}

async function openGateway(limits: Limits = {}): Promise<OpenDoor> {
  const fake = await startFakeServer({ script });
  const authorize = (headers: { authorization?: string | undefined }) => ({ tenant: headers.authorization ?? "" });
  const fleet = await startFleet([answerJson({})], { proxy: { authorize, ...limits } });
  closing.push(
    () => fleet.stop(),
    () => fake.server.close(),
  );
  fleet.pool.change(
    "a",
    upstreamOf("a", { engine: "millrace", target: { url: fake.server.url, apiKey: undefined, modelName: "fake" } }),
  );
  const client = (apiKey = "mine") => new OpenAI({ apiKey, baseURL: `${fleet.proxy.url}/v1`, maxRetries: 0 });
  return { fake, model: "m", client };
}

const promptOf = (fake: FakeServer) =>
  fakeTokenizer.decode(fake.engine.submitted.at(-1)!.promptIds, { keepSpecial: true });
/** The client's types lack it. */
const storeOf = (response: object) => ("store" in response ? response.store : undefined);
const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail("expected an error"),
    (thrown) => thrown,
  );

describe.each([
  ["an engine's own door", openEngine],
  ["the gateway", openGateway],
] as const)("%s", (_, open) => {
  it("continues a stored answer, complete or streamed", async () => {
    const { fake, model, client } = await open();
    const first = await client().responses.create({ model, input: "one", instructions: "be brief" });
    expect(first).toMatchObject({ store: true, previous_response_id: null, output_text: "aye" });
    const second = client().responses.stream({ model, input: "two", previous_response_id: first.id });
    const streamed = await second.finalResponse();
    expect(streamed).toMatchObject({ status: "completed", store: true, previous_response_id: first.id });
    const third = await client().responses.create({ model, input: "three", previous_response_id: streamed.id });
    expect(third.previous_response_id).toBe(streamed.id);
    const turns = promptOf(fake)
      .split("<|im_end|>\n")
      .map((turn) => turn.replace("<|im_start|>", ""));
    expect(turns).toEqual(["user\none", "assistant\naye", "user\ntwo", "assistant\naye", "user\nthree", "assistant\n"]);
    const counted = await client().responses.inputTokens.count({
      model,
      input: "three",
      previous_response_id: streamed.id,
    });
    expect(counted.input_tokens).toBe(third.usage?.input_tokens);
  });

  it("returns stored answers and deletes them on request", async () => {
    const { model, client } = await open();
    const first = await client().responses.create({ model, input: "one" });
    expect(await client().responses.retrieve(first.id)).toEqual(first);
    const items = await client().responses.inputItems.list(first.id);
    expect(items.data).toMatchObject([{ role: "user", content: [{ type: "input_text", text: "one" }] }]);
    expect((await failure(client().responses.cancel(first.id))).status).toBe(400);
    await client().responses.delete(first.id);
    expect(await failure(client().responses.retrieve(first.id))).toBeInstanceOf(NotFoundError);
    const gone = client().responses.create({ model, input: "two", previous_response_id: first.id });
    const refusal = { status: 400, code: "previous_response_not_found", param: "previous_response_id" };
    expect(await failure(gone)).toMatchObject(refusal);
  });

  it("keeps one key's answers hidden from other keys", async () => {
    const { model, client } = await open();
    const mine = await client().responses.create({ model, input: "one" });
    const { responses } = client("theirs");
    for (const ask of [
      () => responses.retrieve(mine.id),
      () => responses.delete(mine.id),
      () => responses.inputItems.list(mine.id),
    ])
      expect(await failure(ask() as Promise<unknown>)).toBeInstanceOf(NotFoundError);
    const next = responses.create({ model, input: "two", previous_response_id: mine.id });
    expect(await failure(next)).toMatchObject({ status: 400, code: "previous_response_not_found" });
    expect((await client().responses.retrieve(mine.id)).id).toBe(mine.id);
  });

  it("reports at the end of an answer that is too long that it is not stored", async () => {
    // Enough for the input, but not for the answer as well.
    const { model, client } = await open({ responseLimits: { ...DEFAULT_STORE_LIMITS, maxConversationBytes: 100 } });
    const { responses } = client();
    const whole = await responses.create({ model, input: "one" });
    expect(whole).toMatchObject({ store: false });
    const said: [string, unknown][] = [];
    let streamed = "";
    for await (const event of await responses.create({ model, input: "one", stream: true })) {
      if (!("response" in event)) continue;
      said.push([event.type, storeOf(event.response)]);
      streamed = event.response.id;
    }
    expect(said).toEqual([
      ["response.created", true],
      ["response.in_progress", true],
      ["response.completed", false],
    ]);
    for (const id of [whole.id, streamed]) {
      const gone = responses.create({ model, input: "two", previous_response_id: id });
      expect(await failure(gone)).toMatchObject({ status: 400, code: "previous_response_not_found" });
    }
  });

  it("reports that a failed answer is not stored", async () => {
    const { fake, model, client } = await open();
    const said: [string, unknown][] = [];
    for await (const event of await client().responses.create({ model, input: "endless", stream: true })) {
      if ("response" in event) said.push([event.type, storeOf(event.response)]);
      if (event.type === "response.output_text.delta") fake.engine.fail(new MillraceError("engine_failed", "gone"));
    }
    expect(said.at(-1)).toEqual(["response.failed", false]);
  });

  it("stores neither answers with store: false nor interrupted answers", async () => {
    const { fake, model, client } = await open();
    const unstored = await client().responses.create({ model, input: "one", store: false });
    expect(unstored).toMatchObject({ store: false });
    expect(await failure(client().responses.retrieve(unstored.id))).toBeInstanceOf(NotFoundError);
    const endless = { model, input: "endless", stream: true as const };
    const stream = await client().responses.create(endless);
    let id = "";
    for await (const event of stream) {
      if (event.type === "response.created") id = event.response.id;
      if (event.type === "response.output_text.delta") break;
    }
    await until(() => fake.engine.numLive === 0, "the answer to be broken off");
    expect(fake.engine.numAborted).toBe(1);
    expect(await failure(client().responses.retrieve(id))).toBeInstanceOf(NotFoundError);
  });
});
