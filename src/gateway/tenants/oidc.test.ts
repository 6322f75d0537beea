/** Tokens of an issuer in the test, which also makes bad ones. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { isToken, type OidcSettings, OidcTokens } from "./oidc.js";

interface SigningKey {
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly publicJwk: object;
}

async function signingKey(kid: string, alg: string): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg);
  return { kid, privateKey, publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" } };
}

let first: SigningKey;
let second: SigningKey;
beforeAll(async () => {
  [first, second] = await Promise.all([signingKey("first", "ES256"), signingKey("second", "ES256")]);
});

let server: Server;
let issuer: string;
let published: object;
let numAsked: number;
let isDown: boolean;
/** Whether the issuer never answers. */
let hangs: boolean;
let discovery: object | undefined;
beforeEach(async () => {
  published = { keys: [first.publicJwk] };
  [numAsked, isDown, hangs, discovery] = [0, false, false, undefined];
  server = createServer((incoming, outgoing) => {
    if (hangs) return;
    if (isDown) return void outgoing.writeHead(500).end();
    const isDiscovery = incoming.url === "/.well-known/openid-configuration";
    if (!isDiscovery) numAsked++;
    outgoing.end(JSON.stringify(isDiscovery ? (discovery ?? { issuer, jwks_uri: `${issuer}/keys` }) : published));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  nowMs = START_MS;
});
afterEach(() => {
  server.close();
  server.closeAllConnections();
});

const START_MS = 1_800_000_000_000;
let nowMs = START_MS;

const failures: unknown[] = [];
const tokens = (change: Partial<OidcSettings> = {}) =>
  new OidcTokens(
    { issuer, audience: ["millrace"], tenantClaim: "org", teamClaim: "team", clockSkewMs: 30_000, ...change },
    { now: () => nowMs, onFailure: (_, thrown) => failures.push(thrown) },
  );

const CLAIMS = { org: "acme", team: "search" };

function sign(claims: Readonly<Record<string, unknown>> = {}, key = first, header: object = {}): Promise<string> {
  const nowSeconds = nowMs / 1000;
  const payload = { iss: issuer, aud: "millrace", exp: nowSeconds + 3600, ...CLAIMS, ...claims };
  return new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid: key.kid, ...header }).sign(key.privateKey);
}

const codeOf = async (checked: unknown): Promise<unknown> =>
  Promise.resolve(checked).then(
    () => "valid",
    ({ code }: { readonly code: string }) => code,
  );
/** Includes errors that are thrown at once. */
const check = async (checker: OidcTokens, token: string): Promise<unknown> =>
  codeOf(Promise.resolve().then(() => checker.claimsOf(token)));

test("a token gives its organisation and team, and is then known without the provider", async () => {
  const checker = tokens();
  const token = await sign();
  expect(isToken(token)).toBe(true);
  expect(await checker.claimsOf(token)).toEqual({ tenant: "acme", team: "search", models: undefined });
  isDown = true;
  expect(checker.claimsOf(token)).toEqual({ tenant: "acme", team: "search", models: undefined });
});

test("models are a list or names with spaces between them", async () => {
  const checker = tokens({ modelsClaim: "models" });
  for (const models of [["a*", "b"], "a* b"]) {
    expect(await checker.claimsOf(await sign({ models }))).toMatchObject({ models: ["a*", "b"] });
  }
  for (const models of [undefined, [], "", [1], 7])
    expect(await check(checker, await sign({ models }))).toBe("forbidden");
});

describe("is refused:", () => {
  test.each([
    ["expired", () => sign({ exp: nowMs / 1000 - 31 })],
    ["without an end", () => sign({ exp: undefined })],
    ["not yet valid", () => sign({ nbf: nowMs / 1000 + 31 })],
    ["for another audience", () => sign({ aud: "other" })],
    ["without an audience", () => sign({ aud: undefined })],
    ["of another issuer", () => sign({ iss: "http://127.0.0.1:1" })],
    ["signed with another key of the same name", () => sign({}, { ...second, kid: "first" })],
    ["signed with an unknown key", () => sign({}, second)],
    ["without a signature", async () => new UnsecuredJWT({ iss: issuer, aud: "millrace", ...CLAIMS }).encode()],
    [
      "changed",
      async () => (await sign()).replace(/\.[^.]+\./, `.${Buffer.from('{"org":"evil"}').toString("base64url")}.`),
    ],
    [
      "signed with the public key as a shared secret",
      async () => {
        const secret = Buffer.from(JSON.stringify(first.publicJwk));
        const payload = { iss: issuer, aud: "millrace", exp: nowMs / 1000 + 60, ...CLAIMS };
        return await new SignJWT(payload).setProtectedHeader({ alg: "HS256", kid: "first" }).sign(secret);
      },
    ],
  ] as const)("%s", async (_, make) => {
    const checker = tokens();
    expect(await check(checker, await make())).toBe("invalid_api_key");
    expect(await check(checker, await sign())).toBe("valid");
  });

  test.each([
    { org: undefined },
    { org: "" },
    { org: "a/b" },
    { org: ["acme"] },
    { team: "../x" },
  ])("with the claims %j", async (claims) => {
    expect(await check(tokens(), await sign(claims))).toBe("forbidden");
  });
});

test("clocks may differ by the skew", async () => {
  const checker = tokens();
  expect(await check(checker, await sign({ exp: nowMs / 1000 - 29 }))).toBe("valid");
  expect(await check(checker, await sign({ nbf: nowMs / 1000 + 29 }))).toBe("valid");
});

test("a known token ends at its time", async () => {
  const checker = tokens();
  const token = await sign({ exp: nowMs / 1000 + 10 });
  expect(await check(checker, token)).toBe("valid");
  nowMs += 39_999;
  expect(await check(checker, token)).toBe("valid");
  nowMs += 1;
  expect(await check(checker, token)).toBe("invalid_api_key");
});

test("a flood of unknown key ids asks the provider once in half a minute, and a new key then counts", async () => {
  const checker = tokens();
  expect(await check(checker, await sign())).toBe("valid");
  const flood = async () => {
    const made = await Promise.all(Array.from({ length: 50 }, (_, i) => sign({}, { ...second, kid: `k${i}` })));
    return new Set(await Promise.all(made.map((token) => check(checker, token))));
  };
  expect([await flood(), numAsked]).toEqual([new Set(["invalid_api_key"]), 1]);
  nowMs += 30_000;
  expect([await flood(), numAsked]).toEqual([new Set(["invalid_api_key"]), 2]);
  published = { keys: [second.publicJwk] };
  nowMs += 30_000;
  expect([await check(checker, await sign({}, second)), numAsked]).toEqual(["valid", 3]);
  // A withdrawn key no longer counts.
  expect(await check(checker, await sign())).toBe("invalid_api_key");
});

test("a provider that is down is 503, is asked at a bounded rate, and its last keys go on for a day", async () => {
  isDown = true;
  const checker = tokens();
  const token = await sign();
  failures.length = 0;
  for (let i = 0; i < 20; i++) expect(await check(checker, token)).toBe("identity_provider_unavailable");
  expect(failures).toHaveLength(1);
  isDown = false;
  expect(await check(checker, token)).toBe("identity_provider_unavailable");
  nowMs += 5000;
  expect(await check(checker, token)).toBe("valid");
  isDown = true;
  nowMs += 23 * 3_600_000;
  expect(await check(checker, await sign())).toBe("valid");
  nowMs += 3_600_000;
  expect(await check(checker, await sign())).toBe("identity_provider_unavailable");
});

test("a provider that hangs does not hold up tokens whose key is known", async () => {
  const checker = tokens();
  expect(await check(checker, await sign())).toBe("valid");
  hangs = true;
  nowMs += 11 * 60_000;
  // Its limit is five seconds.
  const slow = new Promise((resolve) => setTimeout(resolve, 4000, "late").unref());
  const tokensOfMany = await Promise.all([sign(), sign({ org: "other" })]);
  for (const token of tokensOfMany) expect(await Promise.race([check(checker, token), slow])).toBe("valid");
});

test.each([
  ["of another issuer", () => ({ issuer: "http://127.0.0.1:1", jwks_uri: `${issuer}/keys` })],
  ["without an address of keys", () => ({ issuer })],
  ["with keys from plain HTTP", () => ({ issuer, jwks_uri: "http://login.example/keys" })],
  ["that is a list", () => []],
])("a discovery document %s counts as a provider that is down", async (_, document) => {
  discovery = document();
  expect(await check(tokens(), await sign())).toBe("identity_provider_unavailable");
});

test("documents that are no documents count as a provider that is down", async () => {
  published = [];
  expect(await check(tokens({ jwksUri: `${issuer}/keys` }), await sign())).toBe("identity_provider_unavailable");
});

test("what cannot be a token is told apart without the provider", () => {
  const texts = ["", "a.b", "mk-abc", "a.b.c", `a.eyJ${"x".repeat(9000)}.c`];
  expect(texts.map(isToken)).toEqual(texts.map(() => false));
});
