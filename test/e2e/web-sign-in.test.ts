/** Sign-in, roles and sign-out of the app in a browser, under a path of a proxy. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Secret } from "../../src/core/config-values.js";
import { adminHandler } from "../../src/fleet/admin.js";
import { adminTarget } from "../helpers/admin-target.js";
import { chromiumPath, launchBrowser, openPage, skipWithoutBrowser } from "../helpers/browser.js";
import { signOut } from "../helpers/web-fleet.js";

let browser: Browser;
let server: Server;
let url: string;
let scaled: string[];

beforeAll(async () => {
  if (chromiumPath !== undefined) browser = await launchBrowser();
}, 60_000);
afterAll(() => browser?.close());
beforeEach(async (context) => {
  skipWithoutBrowser(context);
  scaled = [];
  const handle = adminHandler({
    ...adminTarget([]),
    operators: () => [
      { name: "vera", role: "viewer", key: new Secret("k-viewer") },
      { name: "otto", role: "operator", key: new Secret("k-operator") },
    ],
    // Nobody asks it here.
    signIn: {
      issuer: "https://login.example",
      clientId: "millrace",
      clientSecret: new Secret("s3cret"),
      publicUrl: "https://llm.example/sub",
      name: "Example",
      roleClaim: "groups",
      roles: { viewer: ["staff"], operator: [], admin: [] },
    },
    scale: (model, instances) => {
      scaled.push(model);
      return { instances, limitedBy: undefined };
    },
    instances: () => [INSTANCE],
  });
  server = createServer((incoming, outgoing) => {
    const path = incoming.url ?? "/";
    incoming.url = path.replace(/^\/sub/, "");
    if (path.startsWith("/sub/") && handle(incoming, outgoing, "request-1")) return;
    outgoing.writeHead(200, { "content-type": "application/json" });
    outgoing.end(JSON.stringify({ status: "ok", models: [{ model: "m", instances: {} }], data: [] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/sub/`;
});
afterEach(() => {
  server?.close();
  server?.closeAllConnections();
});

const INSTANCE = {
  id: "m-0",
  model: "m",
  engine: "millrace",
  state: "ready",
  starts: 1,
  metrics: undefined,
  inFlight: 0,
  target: undefined,
  capacity: { seats: 4, kvTokens: undefined, blockSize: undefined },
  isAttached: false,
  reason: undefined,
  isComing: false,
  isGivenUp: false,
  pid: 42,
  logFile: undefined,
} as const;

test("a viewer sees and an operator changes, until the sign-out; no key stays in the tab", async () => {
  await using watched = await openPage(browser, `${url}#/models`);
  const { page, faults } = watched;
  const signIn = async (key: string) => {
    await page.locator("#key").fill(key);
    await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  };
  const link = page.getByRole("link", { name: "Sign in with Example" });
  await link.waitFor();
  expect(await link.evaluate((element) => (element as unknown as { href: string }).href)).toBe(`${url}sign-in`);
  await signIn("k-nobody");
  await page
    .getByRole("alert")
    .filter({ hasText: /^This key is not valid here$/ })
    .waitFor();
  await page.route("**/session", (route) => route.abort(), { times: 1 });
  await signIn("k-viewer");
  await page
    .getByRole("alert")
    .filter({ hasText: /^The server does not answer$/ })
    .waitFor();
  await signIn("k-viewer");
  await page.locator("#signed-in", { hasText: "vera (viewer)" }).waitFor();
  await page.locator("td", { hasText: "needs the role operator" }).first().waitFor();
  expect(await page.getByRole("button", { name: "Restart" }).count()).toBe(0);
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ path: "/sub", httpOnly: true, sameSite: "Strict", secure: false });
  expect(await page.evaluate("JSON.stringify([sessionStorage, localStorage, document.cookie])")).not.toContain("k-");
  await signOut(page, "operator");
  await signIn("k-operator");
  await page.locator("#signed-in", { hasText: "otto (operator)" }).waitFor();
  await page.getByRole("button", { name: "One more" }).click();
  await expect.poll(() => scaled).toEqual(["m"]);
  await page.reload();
  await page.locator("#signed-in", { hasText: "otto (operator)" }).waitFor();
  await page.getByRole("button", { name: "One less" }).click();
  await expect.poll(() => scaled).toEqual(["m", "m"]);
  expect(faults).toEqual([]);
}, 60_000);

test("a tab goes on after a sign-in in another", async () => {
  await using watched = await openPage(browser, `${url}#/models`);
  const { page } = watched;
  const signIn = () =>
    page.evaluate(`fetch("session", { method: "POST", headers: { "content-type": "application/json" },
      body: '{"key": "k-operator"}' }).then(({ status }) => status)`);
  expect(await signIn()).toBe(201);
  await page.reload();
  await page.locator("#signed-in").waitFor();
  expect(await signIn()).toBe(201);
  await page.getByRole("button", { name: "One more" }).click();
  await expect.poll(() => scaled).toEqual(["m"]);
}, 60_000);
