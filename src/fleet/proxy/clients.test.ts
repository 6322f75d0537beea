import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterEach, describe, expect, test } from "vitest";
import { startFakeServer } from "../../../test/helpers/fake-server.js";
import { upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { answerJson, beginStream, sse, startFleet, type TestFleet } from "../../../test/helpers/stand-in.js";

let fleet: TestFleet;
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await fleet.stop();
  for (const close of closing.splice(0)) await close();
});

const openai = () => new OpenAI({ apiKey: "k", baseURL: `${fleet.proxy.url}/v1`, maxRetries: 0 });
const anthropic = () => new Anthropic({ apiKey: "k", baseURL: fleet.proxy.url, maxRetries: 0 });
const messages = [{ role: "user" as const, content: "hello" }];

/** The proxy in front of this repository's own HTTP layer. */
async function startOwn(): Promise<string> {
  const { server } = await startFakeServer();
  closing.push(() => server.close());
  fleet = await startFleet([answerJson({})]);
  const target = { url: server.url, apiKey: undefined, modelName: "fake" };
  fleet.pool.change("a", upstreamOf("a", { engine: "millrace", target }));
  return server.url;
}

describe("the official clients get the same answers with and without the proxy", () => {
  test("OpenAI's", async () => {
    const direct = new OpenAI({ apiKey: "k", baseURL: `${await startOwn()}/v1` });
    const ask = (client: OpenAI, model: string) =>
      client.chat.completions.create({ model, messages, max_tokens: 8, seed: 1 });
    const [through, without] = [await ask(openai(), "m"), await ask(direct, "fake")];
    expect(through.choices).toEqual(without.choices);
    expect(through.usage).toEqual(without.usage);
    let text = "";
    const stream = await openai().chat.completions.create({
      model: "m",
      messages,
      max_tokens: 8,
      seed: 1,
      stream: true,
    });
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe(without.choices[0]!.message.content);
    expect((await openai().models.list()).data.map(({ id }) => id)).toEqual(["m"]);
  });

  test("Anthropic's", async () => {
    const direct = new Anthropic({ apiKey: "k", baseURL: await startOwn() });
    const ask = (client: Anthropic, model: string) => client.messages.create({ model, messages, max_tokens: 8 });
    const [through, without] = [await ask(anthropic(), "m"), await ask(direct, "fake")];
    expect(through.content).toEqual(without.content);
    const final = await anthropic().messages.stream({ model: "m", messages, max_tokens: 8 }).finalMessage();
    expect(final.content).toEqual(without.content);
  });
});

describe("the official clients throw when a stream breaks off", () => {
  test("OpenAI's", async () => {
    const chunk = { id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta: { content: "Once" } }] };
    fleet = await startFleet([
      (_, outgoing) => {
        beginStream(outgoing);
        outgoing.write(`${sse(chunk)}data: {"id`, () => outgoing.destroy());
      },
    ]);
    let text = "";
    const read = async () => {
      const stream = await openai().chat.completions.create({ model: "m", messages, stream: true });
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
    };
    await expect(read()).rejects.toMatchObject({ code: "upstream_failed" });
    expect(text).toBe("Once");
  });

  test("Anthropic's", async () => {
    const start = {
      type: "message_start",
      message: { id: "m", type: "message", role: "assistant", content: [], usage: {} },
    };
    fleet = await startFleet([
      (_, outgoing) => {
        beginStream(outgoing);
        outgoing.write(`event: message_start\n${sse(start)}`, () => outgoing.destroy());
      },
    ]);
    const read = async () => {
      const stream = await anthropic().messages.create({ model: "m", messages, max_tokens: 9, stream: true });
      for await (const _ of stream);
    };
    await expect(read()).rejects.toThrow(/expected an answer from instance a, got/);
  });
});

test("OpenAI's client maps errors of the gateway to its error types", async () => {
  fleet = await startFleet([answerJson({})]);
  fleet.pool.change("a", { state: "starting" });
  const ask = (model: string) => openai().chat.completions.create({ model, messages });
  await expect(ask("m")).rejects.toMatchObject({ status: 503, code: "no_instance_ready", type: "server_error" });
  await expect(ask("n")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
});
