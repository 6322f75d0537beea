/** Every endpoint under /admin, called by every role, on a gateway with all parts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Hono } from "hono";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import { emptyLibrary } from "../../../test/helpers/empty-library.js";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { startWholeGateway } from "../../../test/helpers/whole-gateway.js";
import { ROLES } from "../../core/sign-in/roles.js";
import { adminHandler } from "../admin.js";
import type { Fleet } from "../fleet.js";
import { ENDPOINT_ROLES } from "./endpoint-roles.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-roles-"));
let fleet: Fleet;
let engine: Awaited<ReturnType<typeof startStandIn>>;

beforeAll(async () => {
  engine = await startStandIn(answerJson({ choices: [], data: [{ index: 0, embedding: [1, 0] }] }));
  fleet = await startWholeGateway(
    folder,
    engine.url,
    `
quality: {}
operators:
  - { name: vera, role: viewer, key: k-viewer }
  - { name: otto, role: operator, key: k-operator }
  - { name: anna, role: admin, key: k-admin }`,
    { library: emptyLibrary(join(folder, "models")) },
  );
});
afterAll(async () => {
  await fleet?.close();
  await engine?.die();
  rmSync(folder, { recursive: true });
});

const ask = async (method: string, path: string, key: string | undefined, body?: string) => {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const answer = await fetch(fleet.url + path, { method, headers, ...(body === undefined ? {} : { body }) });
  const text = await answer.text();
  return { status: answer.status, error: text.startsWith("{") ? (JSON.parse(text) as Json).error : undefined };
};

/** A path with the same route whose names stand for nothing, so that the request changes nothing. */
const pathOf = (route: string): string =>
  route.replace(":action{drain|restart}", "drain").replace(/:\w+(\{.+?\})?/g, "x");

test.each(Object.entries(ENDPOINT_ROLES))("%s needs the role %s", async (endpoint, needed) => {
  const [method, route] = endpoint.split(" ") as [string, string];
  const path = pathOf(route);
  const allowed: string[] = [];
  for (const role of ROLES) {
    const { status, error } = await ask(method, path, `k-${role}`);
    expect(error?.message ?? "", "the endpoint is there").not.toContain("expected one of the gateway's paths");
    if (status === 403) expect(error).toMatchObject({ code: "forbidden", message: expect.stringContaining(needed) });
    else allowed.push(role);
  }
  expect(allowed).toEqual(ROLES.slice(ROLES.indexOf(needed)));
  for (const key of [undefined, "k-nobody"]) expect((await ask(method, path, key)).status).toBe(401);
});

test.each([
  "hub?search=a",
  "hub/org/repo",
  "memory?model=org/repo",
])("a viewer does not make the gateway ask the hub: %s", async (path) => {
  expect(await ask("GET", `/admin/library/${path}`, "k-viewer")).toMatchObject({ status: 403 });
  const { error } = await ask("GET", `/admin/library/${path}`, "k-operator");
  expect(error.code).toBe("hub_unreachable");
});

test("HEAD needs the role of GET, and paths that are not there are the same to all", async () => {
  expect((await ask("HEAD", "/admin/audit", "k-viewer")).status).toBe(403);
  expect((await ask("HEAD", "/admin/audit", "k-admin")).status).toBe(200);
  expect((await ask("GET", "/admin/nothing", "k-viewer")).status).toBe(404);
  expect((await ask("POST", "/admin/audit", "k-viewer")).status).toBe(404);
});

test("the audit names the operator", async () => {
  expect((await ask("POST", "/admin/orgs", "k-admin", '{"id": "acme"}')).status).toBe(201);
  const answer = await fetch(`${fleet.url}/admin/audit`, { headers: { "x-api-key": "k-admin" } });
  expect(((await answer.json()) as Json).data[0]).toMatchObject({ actor: "anna" });
});

test("an endpoint without a role is noticed before it is served", () => {
  const part = new Hono().delete("/everything", (c) => c.text("gone"));
  expect(() => adminHandler(adminTarget([part]))).toThrow("expected a role for DELETE /admin/everything, got none");
  const every = new Hono().all("/everything", (c) => c.text("gone"));
  expect(() => adminHandler(adminTarget([every]))).toThrow("expected a role for ALL /admin/everything, got none");
});
