/** One attempt at one instance: which answers can be read at all. */
import { afterEach, describe, expect, test } from "vitest";
import { type Behaviour, sse, startFleet, type TestFleet } from "../../../test/helpers/stand-in.js";

let fleet: TestFleet;
afterEach(() => fleet.stop());

const start = async (behaviour: Behaviour) => {
  fleet = await startFleet([behaviour]);
  return fleet;
};
const CHAT = "/v1/chat/completions";
const request = { model: "m", messages: [] };

describe("an answer whose bytes cannot be read", () => {
  const typed =
    (headers: Record<string, string>): Behaviour =>
    (_, outgoing) => {
      outgoing.writeHead(200, headers).end(sse({ choices: [] }));
    };

  test.each([
    "gzip",
    "br",
    "zstd",
    "Identity, gzip",
  ])("since it is compressed (%s) is refused, though none is asked for", async (encoding) => {
    const compressed = typed({ "Content-Type": "text/event-stream", "Content-Encoding": encoding });
    const { post, standIns } = await start(compressed);
    const response = await post(CHAT, request, { headers: { "accept-encoding": "gzip, br" } });
    expect(response.status).toBe(502);
    const message = `expected an answer from instance a, got one in the encoding ${JSON.stringify(encoding)}`;
    expect(await response.json()).toMatchObject({ error: { code: "upstream_failed", message } });
    expect(standIns[0]!.received[0]!.headers["accept-encoding"]).toBe("identity");
  });

  test("is none where the encoding is identity, and a type in other letters is the type", async () => {
    const { post } = await start(typed({ "Content-Type": "Text/Event-Stream", "Content-Encoding": "Identity" }));
    expect(await (await post(CHAT, request)).text()).toBe(sse({ choices: [] }));
  });
});
