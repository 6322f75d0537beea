/** The commands against the admin API of a gateway without instances. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import { runMain } from "../../../test/helpers/run-main.js";
import { adminHandler } from "../../fleet/admin.js";
import { openDatabase } from "../../gateway/store/database.js";
import { createTenantsApp } from "../../gateway/tenants/admin-app.js";
import { TenantStore } from "../../gateway/tenants/tenant-store.js";

let server: Server;
let url: string;
let store: TenantStore;
beforeAll(async () => {
  store = new TenantStore({ database: openDatabase(undefined), now: () => Date.now(), onFailure: () => {} });
  const handle = adminHandler(adminTarget([createTenantsApp(() => store)]));
  const missing = getRequestListener(() => new Response(null, { status: 404 }));
  server = createServer((incoming, outgoing) => {
    if (!handle(incoming, outgoing, "r")) void missing(incoming, outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.close();
  server.closeAllConnections();
  await store.close();
});

const run = (...args: readonly string[]) => runMain(...args, "--url", url, "--admin-key", "boss");
const json = async (...args: readonly string[]) => {
  const { stdout, stderr } = await run(...args, "--json");
  expect(stderr).toBe("");
  return JSON.parse(stdout);
};

test("an organisation, a team and a key are made, shown, changed, rotated and ended", async () => {
  await json("orgs", "create", "acme", "--budget", "month=100", "--soft-budget", "month=80");
  await json("teams", "create", "acme/search", "--name", "Search", "--requests-per-minute", "60");
  const made = await run(
    "keys",
    "create",
    "laptop",
    "--team",
    "acme/search",
    "--models",
    "mill-*,other",
    "--expires",
    "90d",
  );
  const [, key] = /^ {2}(mk-[\w-]{43})$/m.exec(made.stdout) ?? [];
  expect([made.exitCode, typeof key]).toEqual([0, "string"]);
  const { data } = await json("keys", "list", "--team", "acme/search");
  expect(data).toMatchObject([{ name: "laptop", models: ["mill-*", "other"], org: "acme", team: "acme/search" }]);
  const { id } = data[0];
  const scopes = store.index.callerOf(key!)?.scopes;
  expect(scopes?.map((scope) => scope.id)).toEqual(["acme", "acme/search", id]);
  expect(scopes?.[0]?.limits.budgets).toEqual([
    { unit: "money", window: "month", hard: 100_000_000_000n, soft: 80_000_000_000n },
  ]);
  const days = (data[0].expires_at - Date.now() / 1000) / 86_400;
  expect(days).toBeCloseTo(90, 2);
  const table = (await run("keys", "list")).stdout;
  expect(table).toMatch(/^id +name +of +key +last used \(UTC\) +models +limits +budgets/);
  expect(table).toContain("laptop  acme/search  mk-…");
  const budgets = ["--budget", "day=5", "--metadata", "owner=ann"];
  await json("keys", "update", id, "--name", "desktop", "--models", "none", "--expires", "none", ...budgets);
  expect((await run("keys", "show", id)).stdout).toMatch(/budgets +day \$5\nmetadata +owner=ann/);
  const rotated = await json("keys", "rotate", id, "--grace", "0");
  expect(store.index.callerOf(key!)).toBeUndefined();
  expect(store.index.callerOf(rotated.key)?.keyId).toBe(id);
  await json("orgs", "update", "acme", "--budget", "month=none");
  expect(store.index.callerOf(rotated.key)?.scopes?.[0]?.limits.budgets).toMatchObject([{ hard: undefined }]);
  const tokens = [
    "--token-budget",
    "month=5000000",
    "--soft-token-budget",
    "month=4000000",
    "--token-budget",
    "total=9",
  ];
  await json("keys", "update", id, ...tokens);
  expect((await run("keys", "show", id)).stdout).toMatch(
    /budgets +day \$5, month 5000000 tokens \(soft 4000000 tokens\), total 9 tokens\n/,
  );
  expect(store.index.callerOf(rotated.key)?.scopes?.at(-1)?.limits.budgets).toMatchObject([
    { unit: "money", window: "day" },
    { unit: "tokens", window: "month", hard: 5_000_000n, soft: 4_000_000n },
    { unit: "tokens", window: "total", hard: 9n },
  ]);
  await json("orgs", "delete", "acme");
  expect(store.index.callerOf(rotated.key)).toBeUndefined();
  expect((await run("teams", "list")).stdout).toBe("there are no teams besides those of the gateway's file\n");
  expect((await run("keys", "list", "--all")).stdout).toMatch(/desktop.*revoked 20/);
});

test("a revoked key shows no time until which its old text would be valid", async () => {
  const { id } = await json("keys", "create", "k");
  expect((await run("keys", "rotate", id)).stdout).toContain("old key until");
  expect((await run("keys", "revoke", id)).stdout).not.toContain("old key until");
});

test("a list has all pages", async () => {
  for (let i = 0; i < 105; i++) {
    await store.createKey({ org: "default", team: undefined }, { name: `n${i}` }, undefined, {
      name: "t",
      requestId: "",
    });
  }
  const { data } = await json("keys", "list", "--org", "default");
  expect(new Set(data.map(({ name }: { readonly name: string }) => name)).size).toBe(105);
});

test.each([
  [
    ["keys", "create", "k", "--org", "nobody"],
    /error \[not_found\]: expected the id of an organisation in use, got "nobody"/,
  ],
  [["keys", "create", "k", "--budget", "year=1"], /--budget/],
  [["keys", "create", "k", "--token-budget", "day=1.5"], /--token-budget/],
  [["keys", "create", "k", "--requests-per-minute", "-1"], /--requests-per-minute/],
  [["keys", "create", "k", "--expires", "soon"], /--expires/],
  [["keys", "show", "nobody"], /error \[not_found\]: expected the id of a key in use, got "nobody"/],
  [["teams", "create", "acme"], /id/],
] as const)("%j is refused", async (args, message) => {
  const { stderr, exitCode } = await run(...args);
  expect([exitCode > 0, stderr]).toEqual([true, expect.stringMatching(message)]);
});

test("without a key, a gateway or its admin API, the error says what to do", async () => {
  const without = await runMain("keys", "list", "--url", url);
  expect([without.exitCode, without.stderr]).toEqual([2, expect.stringMatching(/MILLRACE_ADMIN_KEY/)]);
  const wrong = await runMain("keys", "list", "--url", url, "--admin-key", "wrong");
  expect([wrong.exitCode, wrong.stderr]).toEqual([
    1,
    expect.stringMatching(
      /^error \[invalid_api_key\]: expected an operator's key, got an unknown one\nhint: set MILLRACE_ADMIN_KEY/,
    ),
  ]);
  const nobody = await runMain("keys", "list", "--url", "http://127.0.0.1:1", "--admin-key", "boss");
  expect(nobody.stderr).toMatch(/expected a gateway at/);
});

test.each([
  [
    ["keys", "create", "laptop", "--team", "beta/nobody"],
    'expected the id of a team in use, got "beta/nobody"; millrace teams list shows those in use, and millrace teams create makes one',
  ],
  [
    ["orgs", "create", "default"],
    "expected an id that no org has or had, got default; choose another id, or change the one there is with millrace orgs update",
  ],
  [["orgs", "show", "nobody"], 'expected the id of an organisation in use, got "nobody"; millrace orgs list shows'],
])("%j says what was expected, what came, and what to do", async (args, message) => {
  await run("orgs", "create", "beta");
  const { stderr, exitCode } = await run(...args);
  expect(stderr).toContain(message);
  expect(exitCode).toBe(1);
});
