/**
 * The author of a silence: the operator with the key or session; a name in the request counts only for a shared key.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { startWholeGateway } from "../../../test/helpers/whole-gateway.js";
import type { Fleet } from "../fleet.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-silences-"));
let fleet: Fleet;
let engine: Awaited<ReturnType<typeof startStandIn>>;

beforeAll(async () => {
  engine = await startStandIn(answerJson({}));
  const keys = "admin-key: boss\noperators: [{ name: otto, role: operator, key: k-otto }]";
  fleet = await startWholeGateway(folder, engine.url, keys);
});
afterAll(async () => {
  await fleet?.close();
  await engine?.die();
  rmSync(folder, { recursive: true, force: true });
});

type Headers = Readonly<Record<string, string>>;

async function silence(headers: Headers, author?: string): Promise<Json> {
  const ends = new Date(Date.now() + 3_600_000).toISOString();
  const body = JSON.stringify({ metric: "spend", comment: "move", ends, author });
  const answer = await fetch(`${fleet.url}/admin/alerts/silences`, { method: "POST", headers, body });
  return (await answer.json()) as Json;
}

const withKey = (key: string): Headers => ({ authorization: `Bearer ${key}` });

async function session(key: string): Promise<Headers> {
  const headers = { "content-type": "application/json", origin: fleet.url };
  const answer = await fetch(`${fleet.url}/session`, { method: "POST", headers, body: JSON.stringify({ key }) });
  const { csrf_token: token } = (await answer.json()) as Json;
  const cookie = answer.headers.get("set-cookie")!.split(";", 1)[0]!;
  return { cookie, origin: fleet.url, "x-csrf-token": token as string };
}

test("an operator is the author, with a key and with a session, and can name nobody else", async () => {
  for (const headers of [withKey("k-otto"), await session("k-otto")]) {
    expect((await silence(headers)).author).toBe("otto");
    expect((await silence(headers, "otto")).author).toBe("otto");
    expect((await silence(headers, "anna")).error).toMatchObject({ code: "invalid_parameter", param: "author" });
  }
});

test("the admin-key, which is nobody's own, says who it is, or does not", async () => {
  for (const headers of [withKey("boss"), await session("boss")]) {
    expect((await silence(headers, "anna")).author).toBe("anna");
    expect((await silence(headers)).author).toBe("");
  }
});
