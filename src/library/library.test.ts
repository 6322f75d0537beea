/**
 * The administrator's paths against a local hub: lists, sizes, watched, cancelled and resumed downloads, and removal.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Hono } from "hono";
import { afterEach, expect, test, vi } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { type HubRepo, type HubServer, startHubServer } from "../../test/helpers/hub-server.js";
import type { Json } from "../../test/helpers/json.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { toMillraceError } from "../core/errors.js";
import type { ModelLibrary } from "../core/model-library.js";
import { registerServer } from "../core/server-registry.js";
import { openLibrary } from "./app.js";

const model = readFileSync(join(repositoryRoot(), "models/mill-student.gguf"));
const REPOS: Record<string, HubRepo> = {
  "org/small-GGUF": { files: { "small-Q4_K_M.gguf": model, "small-Q8_0.gguf": model, "mmproj-F16.gguf": model } },
  "org/other-GGUF": { files: { "other.gguf": model } },
  "org/third-GGUF": { files: { "third.gguf": model } },
  "org/fourth-GGUF": { files: { "fourth.gguf": model } },
  "org/folder": { files: { "config.json": Buffer.from("{}"), "model.safetensors": Buffer.from("x") } },
  "org/secret-GGUF": { files: { "m.gguf": model }, token: "t" },
};

let hub: HubServer;
let cacheDir: string;
let uses: readonly string[];
let library: ModelLibrary;
let app: Hono;
afterEach(async () => {
  await hub.close();
});

async function start(): Promise<void> {
  hub = await startHubServer(REPOS);
  cacheDir = tempTree({});
  uses = [];
  library = openLibrary({ uses: () => uses, cacheDir, hub: { endpoint: hub.endpoint, token: "" } });
  app = new Hono().route("/", library.app);
  app.onError((thrown, c) => {
    const { status, code, message } = toMillraceError(thrown);
    return c.json({ code, message }, status as 400);
  });
}

interface Row {
  readonly name: string;
  readonly is_in_use: boolean;
  readonly is_complete: boolean;
  readonly quantization: string;
  readonly family: string;
  readonly memory: { readonly weight_bytes: number; readonly total_bytes: number };
}

async function ask(path: string, method = "GET"): Promise<{ readonly status: number; readonly body: Json }> {
  const answer = await app.request(path, { method });
  return { status: answer.status, body: await answer.json() };
}

const rows = async (): Promise<readonly Row[]> => ((await ask("/")).body as { data: Row[] }).data;
const row = async (name: string): Promise<Row | undefined> => (await rows()).find((each) => each.name === name);

async function pulled(name: string): Promise<void> {
  const pull = library.pull(name);
  await pull.ended;
  expect(pull.status().state).toBe("done");
}

test("models on disk have what their headers say, and the memory they need beside what is free", async () => {
  await start();
  await pulled("org/small-GGUF:Q8_0");
  const { body } = await ask("/");
  expect(body.folder).toBe(join(cacheDir, "hub"));
  expect(body.free_disk_bytes).toBeGreaterThan(0);
  expect(body.free_memory_bytes).toBeGreaterThan(0);
  const found = await row("hf:org/small-GGUF:small-Q8_0.gguf");
  expect(found).toMatchObject({ is_complete: true, is_bundled: false, is_in_use: false, family: "llama" });
  expect(found!.memory.weight_bytes).toBeGreaterThan(0.8 * model.length);
  expect(found!.memory.weight_bytes).toBeLessThan(model.length);
  expect(await row("mill-base")).toMatchObject({ is_bundled: true });
});

test("a damaged file says so, and hides no other", async () => {
  await start();
  await pulled("org/other-GGUF");
  writeFileSync(join(cacheDir, "hub/org/other-GGUF/main/other.gguf"), "no model");
  expect(await row("hf:org/other-GGUF:other.gguf")).toMatchObject({ problem: expect.stringContaining("GGUF") });
  expect(await row("mill-base")).toMatchObject({ family: "llama" });
});

test("the hub is searched by words and form, and shows a repository's models with those that are here", async () => {
  await start();
  const { body } = await ask("/hub?search=SMALL");
  expect(body.data).toEqual([
    {
      name: "org/small-GGUF",
      downloads: 1000,
      likes: 0,
      gated: false,
      updated_at: Date.parse("2026-01-02T03:04:05.000Z") / 1000,
    },
  ]);
  expect((await ask("/hub?search=org&format=safetensors")).body.data.map((each: Row) => each.name)).toEqual([
    "org/folder",
  ]);
  await pulled("org/small-GGUF:Q8_0");
  const { data } = (await ask("/hub/org/small-GGUF")).body;
  expect(data).toEqual([
    {
      name: "hf:org/small-GGUF:small-Q4_K_M.gguf",
      label: "small-Q4_K_M",
      bytes: model.length,
      is_whole: true,
      is_on_disk: false,
    },
    expect.objectContaining({ name: "hf:org/small-GGUF:small-Q8_0.gguf", is_on_disk: true }),
  ]);
  expect((await ask("/hub/org/folder")).body.data).toMatchObject([{ name: "hf:org/folder" }]);
});

const REFUSALS = [
  ["GET", "/hub", 400, "search"],
  ["GET", "/hub?search=a&limit=1000", 400, "limit"],
  ["GET", "/hub?search=a&colour=red", 400, "colour: expected nothing of this name"],
  ["GET", "/hub/org/none", 404, "status 401"],
  ["GET", "/hub/org/..%2F..%2Fetc", 400, "expected hf:org/repo"],
  ["GET", "/memory?model=org/small-GGUF:Q8_0&context=999999", 400, "context: expected at most"],
  ["GET", "/memory?model=../../etc/passwd", 400, "expected hf:org/repo"],
  ["GET", "/pulls/none", 404, "the id of a download"],
  ["PUT", "/models/llama3.2", 400, "expected hf:org/repo"],
  ["PUT", "/models/hf:org/small-GGUF:..%2F..%2Fx", 400, "file name inside the repository"],
  ["DELETE", "/models/hf:org%2F..%2F..%2Fetc", 400, "expected hf:org/repo"],
  ["DELETE", "/models/%2Fetc%2Fpasswd", 400, "expected hf:org/repo"],
  ["DELETE", "/models/hf:org/none", 404, "among the downloaded models"],
  ["DELETE", "/models/mill-base", 409, "bundled"],
] as const;
test.each(REFUSALS)("%s %s is refused with %i", async (method, path, status, words) => {
  await start();
  const answer = await ask(path, method);
  expect(answer).toMatchObject({ status, body: { message: expect.stringContaining(words) } });
});

test("the memory of a model is told before it is pulled, from the first bytes of its file", async () => {
  await start();
  const { status, body } = await ask("/memory?model=org/small-GGUF:Q8_0&context=64");
  expect(status).toBe(200);
  expect(body).toMatchObject({ model: "hf:org/small-GGUF:Q8_0", context_tokens: 64, fits: true });
  expect(existsSync(join(cacheDir, "hub"))).toBe(false);
  await pulled("org/small-GGUF:Q8_0");
  const onDisk = await ask("/memory?model=hf:org/small-GGUF:small-Q8_0.gguf&context=64");
  for (const field of ["weight_bytes", "work_bytes", "kv_bytes", "total_bytes"]) {
    expect(body[field], field).toBe(onDisk.body[field]);
  }
  expect(body.total_bytes).toBe(body.weight_bytes + body.work_bytes + body.kv_bytes);
});

test("a download is watched, cancelled, and goes on from where it was", async () => {
  await start();
  hub.faults.push({ kind: "stall", afterBytes: 10_000 });
  const begun = await ask("/models/org/other-GGUF", "PUT");
  expect(begun).toMatchObject({ status: 202, body: { model: "hf:org/other-GGUF", state: "running", error: null } });
  const { id } = begun.body;
  // A repeated request gets the same download.
  expect((await ask("/models/hf.co/org/other-GGUF", "PUT")).body.id).toBe(id);
  await vi.waitFor(
    async () => {
      expect((await ask(`/pulls/${id}`)).body).toMatchObject({ file: "other.gguf", received_bytes: 10_000 });
    },
    { timeout: 20_000 },
  );
  expect((await ask("/models/hf:org/other-GGUF", "DELETE")).body).toMatchObject({ code: "model_in_use" });
  expect((await ask(`/pulls/${id}`, "DELETE")).body).toMatchObject({ state: "cancelled", error: null });
  expect(await row("hf:org/other-GGUF")).toMatchObject({ is_complete: false });
  await pulled("org/other-GGUF");
  expect(hub.requests.at(-1)?.range).toBe("bytes=10000-");
  expect((await ask("/pulls")).body.data.map((each: Row & { state: string }) => each.state)).toEqual([
    "cancelled",
    "done",
  ]);
});

test("a download that fails says why, and few go at once", async () => {
  await start();
  const failing = library.pull("org/secret-GGUF");
  await failing.ended;
  const { body } = await ask(`/pulls/${failing.status().id}`);
  expect(body).toMatchObject({ state: "failed", error: { code: "hub_not_found", hint: expect.any(String) } });
  for (let i = 0; i < 3; i++) hub.faults.push({ kind: "stall", afterBytes: 10 });
  const running = ["small", "other", "third"].map((name) => library.pull(`org/${name}-GGUF`));
  await vi.waitFor(() => expect(running.map((pull) => pull.status().receivedBytes)).toEqual([10, 10, 10]), {
    timeout: 20_000,
  });
  expect(await ask("/models/org/fourth-GGUF", "PUT")).toMatchObject({ status: 429, body: { code: "pull_limit" } });
  for (const pull of running) await ask(`/pulls/${pull.status().id}`, "DELETE");
  await pulled("org/fourth-GGUF");
});

test("a model is removed, but never one that a server is configured with or that is on its way", async () => {
  await start();
  await pulled("org/small-GGUF:Q8_0");
  await pulled("org/small-GGUF:Q4_K_M");
  const [q4, q8] = ["hf:org/small-GGUF:small-Q4_K_M.gguf", "hf:org/small-GGUF:small-Q8_0.gguf"] as const;
  const file = join(cacheDir, "hub/org/small-GGUF/main/small-Q8_0.gguf");
  for (const text of [file, q8, "hf:org/small-GGUF:Q8_0", `{"model":${JSON.stringify(file)}}`]) {
    uses = [text, "hf:no-model"];
    expect((await row(q8))?.is_in_use, text).toBe(true);
    expect((await row(q4))?.is_in_use, text).toBe(false);
    for (const name of [q8, "org/small-GGUF:Q8_0", "hf:org/small-GGUF"]) {
      const answer = await ask(`/models/${name}`, "DELETE");
      expect(answer, `${name} while ${text}`).toMatchObject({ status: 409, body: { code: "model_in_use" } });
    }
  }
  // The listing resolves names; without one, the complete repository counts.
  const listing = join(cacheDir, "hub/org/small-GGUF/main/listing.json");
  renameSync(listing, `${listing}.away`);
  uses = [file];
  expect((await ask("/models/org/small-GGUF:Q4_K_M", "DELETE")).body).toMatchObject({ code: "model_in_use" });
  renameSync(`${listing}.away`, listing);
  expect(await ask(`/models/${q4}`, "DELETE")).toMatchObject({ status: 200, body: { removed: true } });
  expect(existsSync(file)).toBe(true);
  uses = [];
  const facts = { url: "http://127.0.0.1:1", models: ["m"], kind: "engine", version: "0" } as const;
  const unregister = registerServer({ ...facts, uses: [file] }, cacheDir);
  expect((await row(q8))?.is_in_use).toBe(true);
  unregister();
  hub.faults.push({ kind: "stall", afterBytes: 10 });
  const pull = library.pull("org/small-GGUF:Q4_K_M");
  await vi.waitFor(() => expect(pull.status().receivedBytes).toBe(10), { timeout: 20_000 });
  expect((await ask(`/models/${q8}`, "DELETE")).body).toMatchObject({ code: "model_in_use" });
  await ask(`/pulls/${pull.status().id}`, "DELETE");
  expect((await ask("/models/org/small-GGUF:Q8_0", "DELETE")).status).toBe(200);
  expect(existsSync(file)).toBe(false);
});

test("of a removal and a load that meet, the first one wins, and the other is refused with all files there or none", async () => {
  await start();
  const name = "hf:org/other-GGUF:other.gguf";
  const file = join(cacheDir, "hub/org/other-GGUF/main/other.gguf");
  await pulled("org/other-GGUF");
  let put = (): void => {};
  const loading = library.hold(name, async ({ path }) => {
    await new Promise<void>((resolve) => {
      put = resolve;
    });
    uses = [path];
  });
  // During the load's look-up of the model, and during its use of the result.
  const early = ask(`/models/${name}`, "DELETE");
  expect(await early).toMatchObject({ status: 409, body: { code: "model_in_use" } });
  expect(await ask("/models/org/other-GGUF", "DELETE")).toMatchObject({ status: 409 });
  expect((await row(name))?.is_in_use).toBe(true);
  put();
  await loading;
  expect(await ask(`/models/${name}`, "DELETE")).toMatchObject({ status: 409 });
  expect(existsSync(file)).toBe(true);
  uses = [];
  await expect(library.hold(name, () => Promise.reject(new Error("no memory")))).rejects.toThrow("no memory");
  const removal = ask(`/models/${name}`, "DELETE");
  await expect(library.hold(name, async ({ path }) => path)).rejects.toMatchObject({ code: "model_not_found" });
  expect((await removal).status).toBe(200);
  expect(existsSync(join(cacheDir, "hub/org/other-GGUF"))).toBe(false);
});
