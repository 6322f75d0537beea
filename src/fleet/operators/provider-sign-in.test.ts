/** Sign-in at a provider within the test, which checks the same as real ones, and misbehaves on command. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportSPKI, UnsecuredJWT } from "jose";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import { CLAIMS, IdentityProvider, type KeyPair, makeKeyPair } from "../../../test/helpers/identity-provider.js";
import type { Json } from "../../../test/helpers/json.js";
import { Secret } from "../../core/config-values.js";
import { adminHandler } from "../admin.js";

let pair: KeyPair;
let stranger: KeyPair;
beforeAll(async () => {
  [pair, stranger] = await Promise.all([makeKeyPair(), makeKeyPair()]);
});

let provider: IdentityProvider;
let server: Server;
let url: string;
beforeEach(async () => {
  provider = await IdentityProvider.start(pair);
  const target = {
    ...adminTarget([], () => undefined),
    needsKeys: () => true,
    clientWith: () => ({ tenant: "search" }),
    signIn: {
      issuer: provider.issuer,
      clientId: "millrace",
      clientSecret: new Secret("s3cret"),
      publicUrl: "https://llm.example/sub/",
      name: "Example",
      roleClaim: "groups",
      roles: { viewer: ["staff"], operator: ["llm-ops"], admin: ["llm-admins"] },
    },
  };
  const handle = adminHandler(target);
  server = createServer((incoming, outgoing) => {
    if (!handle(incoming, outgoing, "request-1")) outgoing.writeHead(418).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  provider.close();
  server.close();
  server.closeAllConnections();
});

async function get(path: string, cookie = "") {
  const answer = await fetch(url + path, { redirect: "manual", headers: { cookie } });
  const text = await answer.text();
  return {
    status: answer.status,
    location: answer.headers.get("location"),
    cookies: answer.headers.getSetCookie(),
    code: text.startsWith("{") ? ((JSON.parse(text) as Json).error?.code as string | undefined) : undefined,
  };
}

/** The browser's way to the provider, where the visitor agrees. */
async function begin() {
  const { location, cookies } = await get("/sign-in");
  const asked = new URL(location!).searchParams;
  provider.agree(asked);
  return { asked, cookie: cookies[0]!.split(";", 1)[0]!, setCookie: cookies[0]!, state: asked.get("state")! };
}

async function signIn() {
  const { cookie, state } = await begin();
  return await get(`/signed-in?code=code-1&state=${state}`, cookie);
}

test("the visitor comes back with a session of the greatest role that the claim gives", async () => {
  const { asked, setCookie, cookie, state } = await begin();
  expect(Object.fromEntries(asked)).toMatchObject({
    client_id: "millrace",
    redirect_uri: "https://llm.example/sub/signed-in",
    response_type: "code",
    code_challenge_method: "S256",
  });
  expect(setCookie).toMatch(/=[\w.-]{200,600}; Max-Age=600; HttpOnly; SameSite=Lax; Path=\/; Secure$/);
  const { status, location, cookies } = await get(`/signed-in?code=code-1&state=${state}`, cookie);
  expect([status, location]).toEqual([302, "./"]);
  expect(cookies[1]).toMatch(/; HttpOnly; SameSite=Strict; Path=\/; Secure$/);
  const session = cookies[1]!.split(";", 1)[0]!;
  const answer = await fetch(`${url}/session`, { headers: { cookie: session } });
  const { name, role, csrf_token: token } = (await answer.json()) as Json;
  expect([name, role]).toEqual(["oidc:ann@example.com", "admin"]);
  expect((await get("/admin/instances", session)).status).toBe(200);
  const scale = (headers: Record<string, string>) =>
    fetch(`${url}/admin/models/m/scale`, { method: "POST", body: '{"instances": 1}', headers });
  const own = { cookie: session, origin: "https://llm.example", "x-csrf-token": token as string };
  expect((await scale(own)).status).toBe(202);
  expect((await scale({ ...own, origin: "https://evil.example" })).status).toBe(403);
});

test("a client's session goes on beside that of the operator who comes back, without whose cookie the browser comes", async () => {
  const headers = { "content-type": "application/json", origin: "https://llm.example" };
  const ofProxy = { ...headers, "x-forwarded-host": "llm.example" };
  const client = await fetch(`${url}/session`, { method: "POST", headers: ofProxy, body: '{"key": "sk-search"}' });
  const ofClient = client.headers.getSetCookie()[0]!.split(";", 1)[0]!;
  const { cookies } = await signIn();
  const names = cookies.map((each) => each.split("=", 1)[0]!.replace(/-[0-9a-f]{12}$/, ""));
  expect(names).toEqual(["__Host-millrace-sign-in", "__Host-millrace-operator-session"]);
  const both = `${ofClient}; ${cookies[1]!.split(";", 1)[0]}`;
  const answer = (await (await fetch(`${url}/session`, { headers: { cookie: both } })).json()) as Json;
  expect(answer).toMatchObject({ name: "oidc:ann@example.com", role: "admin", is_client: true, client: "search" });
});

test("a code and an attempt are good once, for the browser that began", async () => {
  const { cookie, state } = await begin();
  const path = `/signed-in?code=code-1&state=${state}`;
  expect((await get(path)).code).toBe("invalid_api_key");
  expect((await get(path, cookie)).status).toBe(302);
  expect((await get(path, cookie)).code).toBe("invalid_api_key");
  const again = await get("/sign-in");
  const replayed = new URL(again.location!).searchParams.get("state");
  const used = await get(`/signed-in?code=code-1&state=${replayed}`, again.cookies[0]!.split(";", 1)[0]);
  expect(used).toMatchObject({ status: 401, cookies: [] });
});

test("an attempt that somebody altered or made is none", async () => {
  const { cookie, state } = await begin();
  const path = `/signed-in?code=code-1&state=${state}`;
  const [head, ...rest] = cookie.split(".");
  const swapped = [head, ...rest.slice(0, -2), `${rest.at(-2)!.slice(0, -4)}AAAA`, rest.at(-1)].join(".");
  for (const wrong of [swapped, `${cookie}A`, cookie.replace(/=.*/, "=x.y"), cookie.replace(/=.*/, "=")]) {
    expect(await get(path, wrong)).toMatchObject({ code: "invalid_api_key", cookies: [] });
  }
  expect((await get(path, cookie)).status).toBe(302);
});

test.each([
  ["another state", "code=code-1&state=guess"],
  ["no state", "code=code-1"],
  ["no code", "state=STATE"],
  ["a refusal", "error=access_denied&state=STATE"],
  ["another issuer", "code=code-1&state=STATE&iss=https%3A%2F%2Fevil.example"],
  ["a return path", "code=code-1&state=guess&return=https://evil.example"],
])("an answer with %s signs nobody in", async (_, query) => {
  const { cookie, state } = await begin();
  const answer = await get(`/signed-in?${query.replace("STATE", state)}`, cookie);
  expect(answer).toMatchObject({ status: 401, code: "invalid_api_key", location: null, cookies: [] });
});

const past = () => Math.floor(Date.now() / 1000) - 600;
test.each([
  ["with another nonce", () => provider.signed({ nonce: "guess" })],
  ["without a nonce", () => provider.signed({})],
  ["of another issuer", (nonce: string) => provider.signed({ nonce, iss: "https://evil.example" })],
  ["for another audience", (nonce: string) => provider.signed({ nonce, aud: "other" })],
  ["that has expired", (nonce: string) => provider.signed({ nonce, exp: past() })],
  ["signed by a stranger", (nonce: string) => provider.signed({ nonce }, stranger.privateKey)],
  ["of an unknown key", (nonce: string) => provider.signed({ nonce }, stranger.privateKey, "RS256", "two")],
  [
    "without a signature",
    (nonce: string) =>
      new UnsecuredJWT({ iss: provider.issuer, aud: "millrace", ...CLAIMS, nonce, exp: 9e9, iat: 1 }).encode(),
  ],
  [
    "signed with the public key as a shared secret",
    async (nonce: string) =>
      provider.signed({ nonce }, new TextEncoder().encode(await exportSPKI(pair.publicKey)), "HS256"),
  ],
  ["that is none", () => "nonsense"],
] as const)("a token %s signs nobody in", async (_, make) => {
  provider.idToken = make;
  expect(await signIn()).toMatchObject({ status: 401, code: "invalid_api_key", location: null, cookies: [] });
});

test("an address that the provider has not verified is no name", async () => {
  provider.idToken = (nonce) => provider.signed({ nonce, email_verified: false });
  const { cookies } = await signIn();
  const answer = await fetch(`${url}/session`, { headers: { cookie: cookies[1]!.split(";", 1)[0]! } });
  expect(((await answer.json()) as Json).name).toBe("oidc:u1");
});

test("who has no role is refused", async () => {
  for (const groups of [[], "guests", { llm: "llm-admins" }, undefined]) {
    provider.idToken = (nonce) => provider.signed({ nonce, groups });
    expect(await signIn()).toMatchObject({ status: 403, code: "forbidden", cookies: [] });
  }
});

test("a provider that is down is not the visitor's fault, and is asked again", async () => {
  provider.isDown = true;
  expect(await get("/sign-in")).toMatchObject({ status: 503, code: "identity_provider_unavailable" });
  provider.isDown = false;
  const { cookie, state } = await begin();
  provider.isDown = true;
  const path = `/signed-in?code=code-1&state=${state}`;
  expect(await get(path, cookie)).toMatchObject({ status: 503, code: "identity_provider_unavailable" });
  provider.isDown = false;
  expect((await signIn()).status).toBe(302);
});

test("keys without end are not read", async () => {
  provider.answers["/keys"] = () => JSON.stringify({ keys: [], filler: "x".repeat(2 * 1024 * 1024) });
  expect(await signIn()).toMatchObject({ status: 503, code: "identity_provider_unavailable" });
});

test("without keys of operators, a visitor is asked to sign in", async () => {
  expect((await get("/admin/instances")).code).toBe("invalid_api_key");
  expect((await get("/watch/requests")).status).toBe(401);
  expect((await (await fetch(`${url}/session`)).json()) as Json).toEqual({
    signed_in: false,
    ways: ["oidc"],
    provider: "Example",
    takes_feedback: false,
  });
});
