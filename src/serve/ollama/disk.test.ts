/**
 * The administrator's rights over the models on the disk, which nobody else has: under /admin, and with Ollama's pull
 * and
 * delete.
 */
import { expect, test, vi } from "vitest";
import { cannedLibrary } from "../../../test/helpers/canned-library.js";
import { fakeAppOptions } from "../../../test/helpers/fake-server.js";
import { MillraceError } from "../../core/errors.js";
import { createApp } from "../app.js";
import type { AppOptions } from "../http/context.js";

const canned = () => {
  const disk = cannedLibrary();
  const appWith = (overrides: Partial<AppOptions> = {}) =>
    createApp(fakeAppOptions({}, { library: disk.library, adminKey: "boss", ...overrides }).options);
  return { ...disk, appWith };
};

const by = (key: string | undefined, method: string, body?: object): RequestInit => ({
  method,
  headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
});

const PATHS = [
  ["GET", "/admin/library"],
  ["PUT", "/admin/library/models/org/m"],
  ["DELETE", "/api/delete"],
  ["POST", "/api/pull"],
] as const;

test.each(PATHS)("%s %s is the administrator's", async (method, path) => {
  const { appWith, asked } = canned();
  const body = method === "GET" || method === "PUT" ? undefined : { model: "hf.co/org/m" };
  for (const key of [undefined, "guess", "client"]) {
    for (const apiKeys of [[], ["client"]]) {
      const answer = await appWith({ apiKeys }).request(path, by(key, method, body));
      expect(answer.status, `${key} with ${apiKeys.length} keys`).toBe(401);
    }
  }
  // A server without an administrator's key has no administrator.
  for (const key of [undefined, "boss"]) {
    const answer = await appWith({ adminKey: undefined }).request(path, by(key, method, body));
    expect(answer.status).toBe(404);
    expect(await answer.text()).toContain("--admin-key");
  }
  expect(asked).toEqual([]);
});

test("the administrator's key opens them, beside clients' keys too", async () => {
  const { appWith, asked, end } = canned();
  end("done");
  const app = appWith({ apiKeys: ["client"] });
  expect(await (await app.request("/admin/library", by("boss", "GET"))).json()).toEqual({ object: "list", data: [] });
  const pulled = await app.request("/api/pull", by("boss", "POST", { model: "hf.co/org/m:latest", stream: false }));
  expect(await pulled.json()).toEqual({ status: "success" });
  const removed = await app.request("/api/delete", by("boss", "DELETE", { name: "hf.co/org/m:Q4_K_M" }));
  expect([removed.status, await removed.text()]).toEqual([200, ""]);
  expect(asked).toEqual(["pull hf.co/org/m", "remove hf.co/org/m:Q4_K_M"]);
  // The administrator's key does not open the models themselves.
  expect((await app.request("/v1/models", by("boss", "GET"))).status).toBe(401);
});

test("a model that is served is pulled at once, by anybody", async () => {
  const { appWith, asked } = canned();
  const answer = await appWith().request("/api/pull", by(undefined, "POST", { model: "fake:latest" }));
  expect(await answer.text()).toBe('{"status":"pulling manifest"}\n{"status":"success"}\n');
  expect(asked).toEqual([]);
});

test("the lines of a download tell how far it is, and how it ended", async () => {
  const { appWith, set, end } = canned();
  const answer = await appWith().request("/api/pull", by("boss", "POST", { model: "hf.co/org/m" }));
  expect(answer.headers.get("content-type")).toBe("application/x-ndjson");
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const until = async (words: string) => {
    while (!text.includes(words)) text += (await reader.read()).value ?? expect.fail(`ended before ${words}: ${text}`);
  };
  await until("pulling manifest");
  set({ file: "m.gguf", receivedBytes: 10, totalBytes: 30 });
  await until('"total":30,"completed":10');
  set({ receivedBytes: 30 });
  end("done");
  await until("success");
  const statuses = text.trim().split("\n");
  expect(statuses.map((line) => (JSON.parse(line) as { status: string }).status)).toEqual([
    "pulling manifest",
    "pulling m.gguf",
    "pulling m.gguf",
    "verifying sha256 digest",
    "writing manifest",
    "success",
  ]);
  expect(JSON.parse(statuses[1]!)).toMatchObject({ digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) });
});

test("a download that fails says why, in the stream and without one", async () => {
  for (const stream of [true, false]) {
    const { appWith, end } = canned();
    const answer = appWith().request("/api/pull", by("boss", "POST", { model: "hf.co/org/m", stream }));
    end("failed", new MillraceError("hub_not_found", "expected m, got nothing", { hint: "check the name" }));
    const told = await (await answer).text();
    expect(JSON.parse(told.trim().split("\n").at(-1)!)).toEqual({
      error: "expected m, got nothing; check the name",
      code: "hub_not_found",
    });
  }
});

test("a reader who leaves ends no download", async () => {
  const { appWith, library, end } = canned();
  const answer = await appWith().request("/api/pull", by("boss", "POST", { model: "hf.co/org/m" }));
  await answer.body!.cancel();
  const pull = library.pull("org/m");
  expect(pull.status().state).toBe("running");
  end("done");
  await vi.waitFor(() => expect(pull.status().state).toBe("done"), { timeout: 20_000 });
});
