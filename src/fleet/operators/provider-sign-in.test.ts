/** Sign-in at a provider that runs in the test, which checks what real ones check, and misbehaves when it is told to. */
import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type CryptoKey, exportJWK, exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import type { Json } from "../../../test/helpers/json.js";
import { Secret } from "../../core/config-values.js";
import { adminHandler } from "../admin.js";

let pair: { readonly publicKey: CryptoKey; readonly privateKey: CryptoKey };
let stranger: { readonly publicKey: CryptoKey; readonly privateKey: CryptoKey };
beforeAll(async () => {
  [pair, stranger] = await Promise.all([
    generateKeyPair("RS256", { extractable: true }),
    generateKeyPair("RS256", { extractable: true }),
  ]);
});

interface Grant {
  readonly nonce: string;
  readonly challenge: string;
}
const CLAIMS = { sub: "u1", email: "ann@example.com", groups: ["staff", "llm-admins"] };

let issuer: string;
let grants: Map<string, Grant>;
let idToken: (nonce: string) => string | Promise<string>;
let answers: Record<string, () => string>;
let isDown: boolean;
const servers: Server[] = [];

const listen = async (server: Server): Promise<string> => {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const signed = (claims: object, key: CryptoKey | Uint8Array = pair.privateKey, alg = "RS256", kid = "one") =>
  new SignJWT({ iss: issuer, aud: "millrace", ...CLAIMS, ...claims })
    .setProtectedHeader({ alg, kid })
    .setIssuedAt()
    .setExpirationTime("exp" in claims ? (claims.exp as number) : "5m")
    .sign(key);

/** As RFC 6749 and 7636 ask: the client's secret, one use of a code, and the verifier of its challenge. */
async function redeem(form: URLSearchParams): Promise<string | undefined> {
  const code = form.get("code") ?? "";
  const grant = grants.get(code);
  grants.delete(code);
  const challenge = createHash("sha256")
    .update(form.get("code_verifier") ?? "")
    .digest("base64url");
  const isClient = form.get("client_id") === "millrace" && form.get("client_secret") === "s3cret";
  if (grant === undefined || !isClient || challenge !== grant.challenge) return undefined;
  return await idToken(grant.nonce);
}

let url: string;
beforeEach(async () => {
  grants = new Map();
  isDown = false;
  idToken = (nonce) => signed({ nonce });
  const keys = [{ ...(await exportJWK(pair.publicKey)), kid: "one", alg: "RS256", use: "sig" }];
  answers = {
    "/.well-known/openid-configuration": () =>
      JSON.stringify({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
        response_types_supported: ["code"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["RS256"],
      }),
    "/keys": () => JSON.stringify({ keys }),
  };
  issuer = await listen(
    createServer(async (incoming, outgoing) => {
      if (isDown) return void outgoing.writeHead(503).end();
      outgoing.setHeader("content-type", "application/json");
      const answer = answers[incoming.url ?? ""];
      if (answer !== undefined) return void outgoing.end(answer());
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const token = await redeem(new URLSearchParams(Buffer.concat(chunks).toString()));
      if (token === undefined) return void outgoing.writeHead(400).end('{"error": "invalid_grant"}');
      outgoing.end(JSON.stringify({ access_token: "a", token_type: "Bearer", id_token: token }));
    }),
  );
  const target = {
    ...adminTarget([], () => undefined),
    signIn: {
      issuer,
      clientId: "millrace",
      clientSecret: new Secret("s3cret"),
      publicUrl: "https://llm.example/sub/",
      name: "Example",
      roleClaim: "groups",
      roles: { viewer: ["staff"], operator: ["llm-ops"], admin: ["llm-admins"] },
    },
  };
  const handle = adminHandler(target);
  url = await listen(
    createServer((incoming, outgoing) => {
      if (!handle(incoming, outgoing, "request-1")) outgoing.writeHead(418).end();
    }),
  );
});
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
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

/** The browser's way to the provider, where its visitor agrees. */
async function begin() {
  const { location, cookies } = await get("/sign-in");
  const asked = new URL(location!).searchParams;
  grants.set("code-1", { nonce: asked.get("nonce")!, challenge: asked.get("code_challenge")! });
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
  expect(setCookie).toMatch(/=[\w-]{43}; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/);
  const { status, location, cookies } = await get(`/signed-in?code=code-1&state=${state}`, cookie);
  expect([status, location]).toEqual([302, "./"]);
  expect(cookies[1]).toMatch(/; HttpOnly; SameSite=Strict; Secure$/);
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
  ["with another nonce", () => signed({ nonce: "guess" })],
  ["without a nonce", () => signed({})],
  ["of another issuer", (nonce: string) => signed({ nonce, iss: "https://evil.example" })],
  ["for another audience", (nonce: string) => signed({ nonce, aud: "other" })],
  ["that has expired", (nonce: string) => signed({ nonce, exp: past() })],
  ["signed by a stranger", (nonce: string) => signed({ nonce }, stranger.privateKey)],
  ["of an unknown key", (nonce: string) => signed({ nonce }, stranger.privateKey, "RS256", "two")],
  [
    "without a signature",
    (nonce: string) => new UnsecuredJWT({ iss: issuer, aud: "millrace", ...CLAIMS, nonce, exp: 9e9, iat: 1 }).encode(),
  ],
  [
    "signed with the public key as a shared secret",
    async (nonce: string) => signed({ nonce }, new TextEncoder().encode(await exportSPKI(pair.publicKey)), "HS256"),
  ],
  ["that is none", () => "nonsense"],
] as const)("a token %s signs nobody in", async (_, make) => {
  idToken = make;
  expect(await signIn()).toMatchObject({ status: 401, code: "invalid_api_key", location: null, cookies: [] });
});

test("an address that the provider has not verified is no name", async () => {
  idToken = (nonce) => signed({ nonce, email_verified: false });
  const { cookies } = await signIn();
  const answer = await fetch(`${url}/session`, { headers: { cookie: cookies[1]!.split(";", 1)[0]! } });
  expect(((await answer.json()) as Json).name).toBe("oidc:u1");
});

test("who has no role is refused", async () => {
  for (const groups of [[], "guests", { llm: "llm-admins" }, undefined]) {
    idToken = (nonce) => signed({ nonce, groups });
    expect(await signIn()).toMatchObject({ status: 403, code: "forbidden", cookies: [] });
  }
});

test("a provider that is down is not the visitor's fault, and is asked again", async () => {
  isDown = true;
  expect(await get("/sign-in")).toMatchObject({ status: 503, code: "identity_provider_unavailable" });
  isDown = false;
  const { cookie, state } = await begin();
  isDown = true;
  const path = `/signed-in?code=code-1&state=${state}`;
  expect(await get(path, cookie)).toMatchObject({ status: 503, code: "identity_provider_unavailable" });
  isDown = false;
  expect((await signIn()).status).toBe(302);
});

test("keys without end are not read", async () => {
  answers["/keys"] = () => JSON.stringify({ keys: [], filler: "x".repeat(2 * 1024 * 1024) });
  expect(await signIn()).toMatchObject({ status: 503, code: "identity_provider_unavailable" });
});

test("without keys of operators, a visitor is asked to sign in", async () => {
  expect((await get("/admin/instances")).code).toBe("invalid_api_key");
  expect((await get("/watch/requests")).status).toBe(401);
  expect((await (await fetch(`${url}/session`)).json()) as Json).toEqual({
    signed_in: false,
    ways: ["oidc"],
    provider: "Example",
  });
});
