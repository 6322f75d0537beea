/**
 * Clients and administrators who sign in to the app in a browser, at a server of one model and at a gateway; and other
 * pages in the same browser.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { chromiumPath, launchBrowser, openPage, skipWithoutBrowser } from "../helpers/browser.js";
import { whole } from "../helpers/canned-answers.js";
import { writeCertificate } from "../helpers/certificate.js";
import { emptyLibrary } from "../helpers/empty-library.js";
import { startFakeServer } from "../helpers/fake-server.js";
import { EOS_ID } from "../helpers/fake-tokenizer.js";
import { IdentityProvider, makeKeyPair } from "../helpers/identity-provider.js";
import { answerJson, startStandIn } from "../helpers/stand-in.js";
import { signOut } from "../helpers/web-fleet.js";
import { startWholeGateway } from "../helpers/whole-gateway.js";

let browser: Browser;
const folder = mkdtempSync(join(tmpdir(), "millrace-web-sign-in-"));
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  if (chromiumPath !== undefined) browser = await launchBrowser();
}, 60_000);
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(skipWithoutBrowser);
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const SLOW = { timeout: 90_000 };

/** @returns the address of its app */
async function startServer(): Promise<string> {
  const options = { apiKeys: ["k-client"], adminKey: "k-boss", library: emptyLibrary(folder) };
  const { server } = await startFakeServer({ script: () => [72, 105, EOS_ID] }, options);
  closing.push(() => server.close());
  return `${server.url}/`;
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Passes a request on, and leaves the name that the browser asked for in Host. */
function forward(incoming: IncomingMessage, outgoing: ServerResponse, url: string): void {
  const { method, headers } = incoming;
  const target = new URL((incoming.url ?? "").replace(/^\/sub\//, "/"), url);
  const onward = request(target, { method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode!, answer.headers);
    answer.pipe(outgoing);
  });
  onward.on("error", () => outgoing.destroy());
  incoming.pipe(onward);
}

/** A proxy that publishes a server under /sub. */
const underPath = (url: string): Promise<string> =>
  listening(createServer((incoming, outgoing) => forward(incoming, outgoing, url)));

async function signIn(page: Page, label: string, key: string): Promise<void> {
  await page.getByLabel(label, { exact: true }).fill(key);
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
}

async function chat(page: Page): Promise<void> {
  // Before it is signed in, the refusal stands there.
  await page.locator("#model", { hasText: /^(fake|e)$/ }).waitFor();
  await page.fill("#input", "Hello");
  await page.press("#input", "Enter");
  await page.locator(".turn.assistant .facts", { hasText: "first token" }).last().waitFor();
}

/** All that scripts of the page can read. */
const readable = (page: Page): Promise<string> =>
  page.evaluate(`JSON.stringify([sessionStorage, localStorage, document.cookie, document.documentElement.outerHTML,
    [...document.querySelectorAll("input")].map(({ value }) => value)])`);

test("a server of one model, under a path of a proxy: chat and /admin without a key in the tab", SLOW, async () => {
  const proxy = await underPath(await startServer());
  await using watched = await openPage(browser, `${proxy}sub/`);
  const { page, faults } = watched;
  await signIn(page, "API key", "k-nobody");
  await page.getByRole("alert").filter({ hasText: "This key is not valid here" }).waitFor();
  await signIn(page, "API key", "k-client");
  await page.locator("#signed-in-client", { hasText: "with an API key" }).waitFor();
  await chat(page);
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ path: "/sub", httpOnly: true, sameSite: "Strict" });
  await page.reload();
  await chat(page);
  await page.goto(`${proxy}sub/#/models`);
  await signIn(page, "The administrator's key", "k-client");
  await page.getByRole("alert").filter({ hasText: "this page needs the key of an operator" }).waitFor();
  await signIn(page, "The administrator's key", "k-boss");
  await page.locator("#signed-in", { hasText: "admin-key (admin)" }).waitFor();
  await page.getByText("Free memory").waitFor();
  await page.goto(`${proxy}sub/#/requests`);
  await page.locator("tbody tr").first().waitFor();
  expect(await readable(page)).not.toContain("k-");
  await signOut(page, "operator");
  await page.locator("#signed-in").waitFor({ state: "detached" });
  await page.locator("#signed-in-client").waitFor();
  await signOut(page, "client");
  await page.getByLabel("API key", { exact: true }).waitFor();
  expect(await page.context().cookies()).toEqual([]);
  expect(faults).toEqual([]);
});

test("a gateway: the key's session chats beside the operator's, until the key is revoked", SLOW, async () => {
  const engine = await startStandIn((received, outgoing) =>
    received.body.stream === true ? whole("Hi")(outgoing) : answerJson({ data: [] })(received, outgoing),
  );
  closing.push(() => engine.die());
  const fleet = await startWholeGateway(folder, engine.url, "admin-key: k-boss");
  closing.push(() => fleet.close());
  const admin = async (method: string, path: string, body?: object) => {
    const headers = { authorization: "Bearer k-boss" };
    const text = body === undefined ? {} : { body: JSON.stringify(body) };
    return (await (await fetch(`${fleet.url}/admin${path}`, { method, headers, ...text })).json()) as {
      readonly id: string;
      readonly key: string;
    };
  };
  await admin("POST", "/orgs", { id: "acme" });
  const { id, key } = await admin("POST", "/keys", { org: "acme", name: "laptop" });
  await using watched = await openPage(browser, `${fleet.url}/#/models`);
  const { page, faults } = watched;
  await signIn(page, "Your key as an operator of this gateway", "k-boss");
  await page.locator("#signed-in", { hasText: "admin-key (admin)" }).waitFor();
  await page.goto(`${fleet.url}/#/`);
  await page.reload();
  await signIn(page, "API key", key);
  await chat(page);
  await page.locator("#signed-in", { hasText: "admin-key (admin)" }).waitFor();
  const seen = await readable(page);
  expect(seen).not.toContain(key);
  expect(seen).not.toContain("k-boss");
  await admin("DELETE", `/keys/${id}`);
  await page.fill("#input", "Still there?");
  await page.press("#input", "Enter");
  await page.getByLabel("API key", { exact: true }).waitFor();
  await page.locator("#signed-in", { hasText: "admin-key (admin)" }).waitFor();
  expect(faults).toEqual([]);
});

test("a gateway with a certificate: the app works over HTTPS, and its cookies go nowhere else", SLOW, async () => {
  const engine = await startStandIn((received, outgoing) =>
    received.body.stream === true ? whole("Hi")(outgoing) : answerJson({ data: [] })(received, outgoing),
  );
  closing.push(() => engine.die());
  const { certfile, keyfile } = writeCertificate(folder);
  const keys = "admin-key: k-boss\napi-keys: [{ tenant: search, key: sk-search }]";
  const tls = `ssl-certfile: ${certfile}\nssl-keyfile: ${keyfile}`;
  const fleet = await startWholeGateway(mkdtempSync(join(folder, "tls-")), engine.url, `${keys}\n${tls}`);
  closing.push(() => fleet.close());
  await using watched = await openPage(browser, `${fleet.url}/`);
  const { page, faults } = watched;
  await signIn(page, "API key", "sk-search");
  await chat(page);
  await page.goto(`${fleet.url}/#/models`);
  await signIn(page, "Your key as an operator of this gateway", "k-boss");
  await page.locator("#signed-in", { hasText: "admin-key (admin)" }).waitFor();
  const cookies = await page.context().cookies();
  expect(cookies.map(({ name, secure }) => [name.split("-", 1)[0], secure])).toEqual([
    ["__Host", true],
    ["__Host", true],
  ]);
  expect(faults).toEqual([]);
});

test("who signs in at an identity provider stays the client that was signed in, seen as such", SLOW, async () => {
  const engine = await startStandIn((received, outgoing) =>
    received.body.stream === true ? whole("Hi")(outgoing) : answerJson({ data: [] })(received, outgoing),
  );
  closing.push(() => engine.die());
  // For the browser another site than the gateway's.
  const provider = await IdentityProvider.start(await makeKeyPair(), "localhost");
  closing.push(() => provider.close());
  let gateway = "";
  const proxy = await listening(createServer((incoming, outgoing) => forward(incoming, outgoing, gateway)));
  const fleet = await startWholeGateway(
    mkdtempSync(join(folder, "oidc-")),
    engine.url,
    `
admin-key: k-boss
api-keys: [{ tenant: search, key: sk-search }]
sign-in: { issuer: "${provider.issuer}", client-id: millrace, client-secret: s3cret, public-url: "${proxy.slice(0, -1)}",
  name: Example, role-claim: groups, roles: { admin: [llm-admins] } }`,
  );
  closing.push(() => fleet.close());
  gateway = fleet.url;
  await using watched = await openPage(browser, proxy);
  const { page, faults } = watched;
  await signIn(page, "API key", "sk-search");
  await chat(page);
  await page.goto(`${proxy}#/models`);
  await page.getByRole("link", { name: "Sign in with Example" }).click();
  await page.getByRole("link", { name: "Agree" }).click();
  await page.locator("#signed-in", { hasText: "oidc:ann@example.com (admin)" }).waitFor();
  await page.locator("#signed-in-client", { hasText: "API key of search" }).waitFor();
  await chat(page);
  const cookies = await page.context().cookies(proxy);
  expect(cookies.map(({ sameSite }) => sameSite)).toEqual(["Strict", "Strict"]);
  await signOut(page, "client");
  await page.getByLabel("API key", { exact: true }).waitFor();
  await page.locator("#signed-in", { hasText: "oidc:ann@example.com (admin)" }).waitFor();
  expect(faults.filter((each) => !each.startsWith(`foreign request: ${provider.issuer}/`))).toEqual([]);
});

test("another page of the same host can neither chat nor read by the cookie", SLOW, async () => {
  const own = await startServer();
  await using watched = await openPage(browser, own);
  const { page } = watched;
  await signIn(page, "API key", "k-client");
  await chat(page);
  // The same site for the browser, which therefore sends the cookie along.
  const evil = await listening(createServer((_, outgoing) => outgoing.setHeader("content-type", "text/html").end("")));
  const other = await page.context().newPage();
  await other.goto(evil);
  const attempts = (await other.evaluate(`(async () => {
    const attempt = (path, init) => fetch("${own}" + path, { credentials: "include", ...init })
      .then(async (answer) => answer.type + " " + answer.status + " " + await answer.text(), () => "blocked");
    const body = '{"messages": [{"role": "user", "content": "hi"}]}';
    const token = { "content-type": "application/json", "x-csrf-token": "guess" };
    return [
      await attempt("v1/models"),
      await attempt("session"),
      await attempt("v1/chat/completions", { method: "POST", body }),
      await attempt("v1/chat/completions", { method: "POST", body, mode: "no-cors" }),
      await attempt("v1/chat/completions", { method: "POST", body, headers: token }),
      await attempt("session", { method: "DELETE" }),
    ];
  })()`)) as string[];
  expect(attempts).toEqual(["blocked", "blocked", "blocked", "opaque 0 ", "blocked", "blocked"]);
  // With a key, and without credentials, it may.
  const headers = `{ authorization: "Bearer k-client" }`;
  expect(await other.evaluate(`fetch("${own}v1/models", { headers: ${headers} }).then(({ status }) => status)`)).toBe(
    200,
  );
  const answer = await fetch(`${own}watch/requests`, { headers: { authorization: "Bearer k-client" } });
  expect(((await answer.json()) as { data: unknown[] }).data).toHaveLength(1);
  await page.bringToFront();
  await chat(page);
});

test("two servers on one host keep their sessions apart", SLOW, async () => {
  const [first, second] = [await startServer(), await startServer()];
  await using watched = await openPage(browser, first);
  const { page } = watched;
  await signIn(page, "API key", "k-client");
  await chat(page);
  await page.goto(second);
  await signIn(page, "API key", "k-client");
  await chat(page);
  await signOut(page, "client");
  await page.getByLabel("API key", { exact: true }).waitFor();
  await page.goto(first);
  await chat(page);
});
