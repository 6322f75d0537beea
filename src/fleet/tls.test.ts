/** An HTTPS gateway: its address, answers and cookies, and local programs that call it. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, fetch } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeCertificate, writeCertificate } from "../../test/helpers/certificate.js";
import { answerJson, startStandIn } from "../../test/helpers/stand-in.js";
import { startWholeGateway } from "../../test/helpers/whole-gateway.js";
import { askForLoad } from "../core/server-load.js";
import { checkConfig } from "./config/read-config.js";
import type { Fleet } from "./fleet.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-tls-"));
const { certfile, keyfile, cert } = writeCertificate(folder);
const KEYS = `
ssl-certfile: ${certfile}
ssl-keyfile: ${keyfile}
operators: [{ name: anna, role: admin, key: k-admin }]
api-keys: [{ tenant: t, key: sk-t }]`;
const dispatcher = new Agent({ connect: { ca: cert } });
let engine: Awaited<ReturnType<typeof startStandIn>>;
let fleet: Fleet;

beforeAll(async () => {
  engine = await startStandIn(answerJson({ id: "c", choices: [] }));
  fleet = await startWholeGateway(folder, engine.url, KEYS);
});
afterAll(async () => {
  await fleet?.close();
  await engine?.die();
  await dispatcher.close();
  rmSync(folder, { recursive: true });
});

const JSON_TYPE = { "content-type": "application/json" };
const ask = (path: string, body: object, headers: Record<string, string> = {}) =>
  fetch(fleet.url + path, {
    dispatcher,
    method: "POST",
    headers: { ...JSON_TYPE, ...headers },
    body: JSON.stringify(body),
  });

test("it is at an https address, and passes requests on", async () => {
  expect(fleet.url).toBe(`https://127.0.0.1:${fleet.port}`);
  const answer = await ask("/v1/chat/completions", { model: "m", messages: [] }, { authorization: "Bearer sk-t" });
  expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ id: "c" })]);
});

test("a sign-in has a cookie for https alone, whether a page or a program signs in", async () => {
  for (const headers of [{ origin: fleet.url }, {}] as const) {
    const answer = await ask("/session", { key: "k-admin" }, headers);
    expect(answer.status).toBe(201);
    const cookie = answer.headers.get("set-cookie")!;
    expect(cookie).toMatch(/^__Host-millrace-operator-session-.*; HttpOnly; SameSite=Strict; Path=\/; Secure$/);
    const own = cookie.split(";", 1)[0]!;
    // A plain HTTP server on another port may plant a cookie of that name.
    const planted = `millrace-operator-session-${fleet.port}${own.slice(own.indexOf("="))}`;
    for (const [brought, status] of [
      [own, 200],
      [planted, 401],
    ] as const) {
      const read = await fetch(`${fleet.url}/admin/instances`, { dispatcher, headers: { cookie: brought } });
      expect(read.status).toBe(status);
    }
  }
});

test("millrace ps asks it for its load", async () => {
  expect(await askForLoad(fleet.url)).toEqual({ running: 0, waiting: 0 });
});

test("half of a pair is a mistake of the file, and a wrong pair ends the start", async () => {
  const models = "models: [{ name: m, model: /m.gguf }]";
  const { problems } = checkConfig(`ssl-certfile: ${certfile}\n${models}`, {});
  expect(problems.map(({ code, path, message }) => [code, path, message])).toEqual([
    ["config_conflict", "ssl-certfile", "expected ssl-keyfile beside ssl-certfile, got none"],
  ]);
  const text = `ssl-certfile: /nowhere/cert.pem\nssl-keyfile: ${keyfile}\nmodels: [{ name: m, model: hf:org/m }]`;
  expect(checkConfig(text, {}, (path) => path === keyfile).warnings.map(({ path }) => path)).toEqual(["ssl-certfile"]);
  const other = mkdtempSync(join(tmpdir(), "millrace-tls-other-"));
  try {
    const files = writeCertificate(other, { cert, key: makeCertificate().key });
    const keys = `admin-key: k-admin\nssl-certfile: ${files.certfile}\nssl-keyfile: ${files.keyfile}`;
    await expect(startWholeGateway(other, engine.url, keys)).rejects.toMatchObject({ code: "certificate_invalid" });
  } finally {
    rmSync(other, { recursive: true });
  }
});
