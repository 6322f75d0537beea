/** One attempt at one instance: the answers that the gateway can read at all. */
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

test.each([
  [CHAT, {}],
  ["/v1/messages", { max_tokens: 9 }],
])("an answer of %s that leads elsewhere is refused: clients would follow it with their keys and prompts", async (path, more) => {
  const elsewhere: Behaviour = (_, outgoing) => {
    outgoing.writeHead(307, { Location: "http://elsewhere.example/" }).end();
  };
  const { post } = await start(elsewhere);
  const response = await post(path, { ...request, ...more }, { redirect: "manual" });
  expect([response.status, response.headers.get("location")]).toEqual([502, null]);
  const message = "expected an answer from instance a, got status 307, which leads elsewhere";
  expect(await response.json()).toMatchObject({ error: { message } });
});

test("a path that leads elsewhere counts against no instance, and no other one is asked", async () => {
  const elsewhere: Behaviour = (_, outgoing) => {
    outgoing.writeHead(307, { Location: "/v1/things/" }).end();
  };
  fleet = await startFleet([elsewhere, elsewhere]);
  for (let i = 0; i < 5; i++) expect((await fleet.post("/v1/things", request)).status).toBe(502);
  expect(fleet.standIns.map(({ received }) => received.length).reduce((a, b) => a + b)).toBe(5);
  expect(["a", "b"].map((id) => fleet.proxy.breakerState(id))).toEqual(["closed", "closed"]);
});

describe("what an instance tells browsers", () => {
  const said = (type: string | undefined): Behaviour => {
    const headers = {
      "Clear-Site-Data": '"*"',
      Refresh: "0;url=//x",
      "Alt-Svc": 'h2="x:1"',
      "X-Own": "1",
      Location: "/x",
    };
    return (_, outgoing) => {
      outgoing.writeHead(200, { ...headers, ...(type === undefined ? {} : { "Content-Type": type }) });
      outgoing.end("<script>fetch('/session')</script>");
    };
  };

  test.each([
    "application/json; charset=utf-8",
    "text/event-stream",
    "text/html",
    "image/svg+xml",
    "application/json; a=b, text/html",
    undefined,
  ])("about the gateway's origin does not pass, and an answer of type %s runs nothing there", async (type) => {
    const { post } = await start(said(type));
    const { headers } = await post(CHAT, request);
    const names = ["clear-site-data", "refresh", "alt-svc", "location", "x-own"];
    expect(names.map((name) => headers.get(name))).toEqual([null, null, null, null, "1"]);
    const isData = type === "application/json; charset=utf-8" || type === "text/event-stream";
    const asPage = ["content-security-policy", "x-content-type-options"].map((name) => headers.get(name));
    expect(asPage).toEqual(isData ? [null, null] : ["sandbox", "nosniff"]);
  });
});
