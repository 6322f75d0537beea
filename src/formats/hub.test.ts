import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type HubRepo, type HubServer, type HubServerOptions, startHubServer } from "../../test/helpers/hub-server.js";
import { MillraceError } from "../core/errors.js";
import { type DownloadProgress, type ResolvedModel, type ResolveOptions, resolveModelPath } from "./hub.js";

/** Reproducible content that differs by name. */
function contentOf(name: string, numBytes = 300_000): Buffer {
  const block = createHash("sha256").update(name).digest();
  return Buffer.alloc(numBytes, block);
}

function filesNamed(...names: string[]): HubRepo {
  return { files: Object.fromEntries(names.map((name) => [name, contentOf(name)])) };
}

const REPOS: Record<string, HubRepo> = {
  "org/many": {
    files: {
      "README.md": Buffer.from("# many"),
      ...filesNamed("m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0.gguf", "m-IQ4_NL.gguf", "mmproj-F16.gguf").files,
    },
  },
  "org/eight": filesNamed("m.Q8_0.gguf", "m.Q2_K.gguf", "m.F16.gguf"),
  "org/single": filesNamed("whatever.gguf", "mmproj-whatever.gguf"),
  "org/unclear": filesNamed("a-F16.gguf", "b-F16.gguf"),
  "org/none": { files: { "model.safetensors": Buffer.from("x") } },
  "org/split": filesNamed("Q4_K_M/m-00001-of-00002.gguf", "Q4_K_M/m-00002-of-00002.gguf", "Q8_0/m-00001-of-00001.gguf"),
  "org/folder": {
    files: {
      ...filesNamed("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "README.md").files,
      ...filesNamed("additional_chat_templates/tool_use.jinja", "additional_chat_templates/rag.jinja").files,
      ...filesNamed("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors").files,
      "model.safetensors.index.json": Buffer.from(
        '{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}',
      ),
      ...filesNamed("original/model.safetensors", "pytorch_model.bin").files,
    },
  },
  "org/gap": filesNamed("m-00001-of-00002.gguf"),
  "org/private": { ...filesNamed("m.gguf"), token: "secret-token" },
  "org/tagged": { ...filesNamed("m.gguf"), revisions: ["main", "v1.0", "refs/pr/1"] },
  "org/evil": { files: { "../../escaped.gguf": contentOf("evil") } },
};

let folder = "";
let hub: HubServer;
let options: ResolveOptions;

async function start(serverOptions?: HubServerOptions): Promise<void> {
  hub = await startHubServer(REPOS, serverOptions);
  options = { cacheDir: join(folder, "cache"), endpoint: hub.endpoint, retryDelayMs: 0, token: "" };
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-hub-"));
  await start();
});

afterEach(async () => {
  await hub.close();
  rmSync(folder, { recursive: true });
});

async function refusal(promise: Promise<unknown>): Promise<MillraceError> {
  const thrown = await promise.then(
    () => new Error("expected a MillraceError, got success"),
    (error: unknown) => error,
  );
  if (thrown instanceof MillraceError) return thrown;
  throw thrown;
}

function expectContent(model: ResolvedModel, ...names: string[]): void {
  expect(model.files).toHaveLength(names.length);
  expect(model.path).toBe(model.files[0]);
  for (const [index, name] of names.entries()) {
    expect(readFileSync(model.files[index]!).equals(contentOf(name)), name).toBe(true);
  }
}

const downloads = () => hub.requests.filter(({ path }) => path.includes("/resolve/"));
const leftovers = () =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".part"));

describe("local models", () => {
  it("takes a file as it is", async () => {
    const path = join(folder, "m.gguf");
    writeFileSync(path, "x");
    expect(await resolveModelPath(path)).toEqual({ path, files: [path] });
  });

  it("finds all shards from any", async () => {
    const paths = [1, 2].map((number) => join(folder, `m-0000${number}-of-00002.gguf`));
    for (const path of paths) writeFileSync(path, "x");
    expect(await resolveModelPath(paths[1]!)).toEqual({ path: paths[0], files: paths });
    expect(await resolveModelPath(folder)).toEqual({ path: paths[0], files: paths });
    rmSync(paths[0]!);
    const error = await refusal(resolveModelPath(paths[1]!));
    expect([error.code, error.message]).toEqual(["gguf_split", expect.stringContaining(paths[0]!)]);
  });

  it("takes a folder's only model, and lists the choice where there are several", async () => {
    expect((await refusal(resolveModelPath(folder))).message).toMatch(/got none$/);
    writeFileSync(join(folder, "a.gguf"), "x");
    writeFileSync(join(folder, "mmproj-a.gguf"), "x");
    expect(basename((await resolveModelPath(folder)).path)).toBe("a.gguf");
    writeFileSync(join(folder, "b.gguf"), "x");
    const error = await refusal(resolveModelPath(folder));
    expect([error.code, error.message]).toEqual(["file_unreadable", expect.stringMatching(/got a, b$/)]);
  });

  it("points to the hub where a missing path looks like a repository", async () => {
    expect(await refusal(resolveModelPath("org/repo"))).toMatchObject({
      code: "file_unreadable",
      hint: expect.stringContaining("hf:org/repo"),
    });
  });
});

describe("choice of file", () => {
  it.each([
    ["hf:org/many", "m-Q4_K_M.gguf"],
    ["hf:org/many:m-Q4_K_S.gguf", "m-Q4_K_S.gguf"],
    ["hf:org/many:q8_0", "m-Q8_0.gguf"],
    ["hf:org/many:IQ4_NL", "m-IQ4_NL.gguf"],
    ["hf:org/many:mmproj-F16.gguf", "mmproj-F16.gguf"],
    ["hf:org/eight", "m.Q8_0.gguf"],
    ["hf:org/single", "whatever.gguf"],
  ])("%s is %s", async (spec, name) => {
    expectContent(await resolveModelPath(spec, options), name);
  });

  it("downloads a split set whole", async () => {
    const shards = ["Q4_K_M/m-00001-of-00002.gguf", "Q4_K_M/m-00002-of-00002.gguf"];
    expectContent(await resolveModelPath("hf:org/split", options), ...shards);
    expectContent(await resolveModelPath(`hf:org/split:${shards[1]}`, options), ...shards);
    expect(downloads()).toHaveLength(2);
  });

  it("downloads a safetensors model with the files beside it, and finds it again without the hub", async () => {
    const model = await resolveModelPath("hf:org/folder", options);
    expect(relative(folder, model.path)).toBe(join("cache", "hub", "org", "folder", "main"));
    const weights = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    expect(model.files).toEqual(weights.map((name) => join(model.path, name)));
    const templates = ["chat_template.jinja", "additional_chat_templates/tool_use.jinja"];
    for (const name of [...weights, "config.json", "tokenizer.json", "tokenizer_config.json", ...templates]) {
      expect(readFileSync(join(model.path, name)).equals(contentOf(name)), name).toBe(true);
    }
    expect(downloads()).toHaveLength(8);
    expect(await resolveModelPath("hf:org/folder", { ...options, endpoint: "http://127.0.0.1:1" })).toEqual(model);
  });

  it.each([
    ["hf:org/unclear", "hub_spec", /got a-F16, b-F16/],
    ["hf:org/unclear:F16", "hub_spec", /got a-F16, b-F16/],
    ["hf:org/many:Q4_K", "hub_not_found", /expected Q4_K in org\/many, got m-IQ4_NL, m-Q4_K_M/],
    ["hf:org/none", "hub_not_found", /a \.gguf file, or config\.json with .* in org\/none/],
    ["hf:org/folder:Q4_K_M", "hub_not_found", /expected Q4_K_M in org\/folder/],
    ["hf:org/gap", "gguf_split", /none named m-00002-of-00002\.gguf/],
    ["hf:org/missing", "hub_not_found", /org\/missing at main .* status 401/],
    ["hf:org/many@v9", "hub_not_found", /status 404/],
  ])("%s is refused with %s", async (spec, code, message) => {
    const error = await refusal(resolveModelPath(spec, options));
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(message)]);
    expect(error.hint).toBeTruthy();
    expect(downloads()).toHaveLength(0);
  });

  it.each([
    "hf:",
    "hf:repo",
    "hf:a/b/c",
    "hf:../b",
    "hf:a/..",
    "hf:a/b@",
    "hf:a/b@../x",
    "hf:a/b:",
    "hf:a/b:../c.gguf",
  ])("%s is no spec", async (spec) => {
    expect((await refusal(resolveModelPath(spec, options))).code).toBe("hub_spec");
    expect(hub.requests).toHaveLength(0);
  });

  it("takes a repository whole where an engine reads it itself: every file but weights in other forms", async () => {
    const { path, files } = await resolveModelPath("hf:org/folder", { ...options, isWholeRepository: true });
    const names = readdirSync(path).sort();
    expect(names).toContain("README.md");
    expect(names).not.toContain("pytorch_model.bin");
    expect(files.map((file) => basename(file))).toEqual([
      "model-00001-of-00002.safetensors",
      "model-00002-of-00002.safetensors",
    ]);
  });

  it("refuses names from the hub that leave the cache", async () => {
    expect((await refusal(resolveModelPath("hf:org/evil", options))).code).toBe("hub_spec");
    const written = readdirSync(folder, { recursive: true, encoding: "utf8" });
    expect(written.filter((name) => name.endsWith(".gguf"))).toEqual([]);
  });
});

describe("download", () => {
  it("reports progress up to the whole", async () => {
    const reports: DownloadProgress[] = [];
    const model = await resolveModelPath("hf:org/single", { ...options, onProgress: (report) => reports.push(report) });
    expect(reports[0]).toEqual({ file: "whatever.gguf", receivedBytes: 0, totalBytes: 300_000 });
    expect(reports.at(-1)).toEqual({ file: "whatever.gguf", receivedBytes: 300_000, totalBytes: 300_000 });
    const received = reports.map(({ receivedBytes }) => receivedBytes);
    expect(received).toEqual([...received].sort((a, b) => a - b));
    expect(relative(folder, model.path)).toBe(join("cache", "hub", "org", "single", "main", "whatever.gguf"));
    expect(leftovers()).toEqual([]);
  });

  it("uses the cache without asking the hub again", async () => {
    const first = await resolveModelPath("hf:org/many:Q8_0", options);
    await hub.close();
    expect(await resolveModelPath("hf:org/many:Q8_0", options)).toEqual(first);
    expect((await refusal(resolveModelPath("hf:org/many", { ...options, maxFruitlessAttempts: 1 }))).code).toBe(
      "hub_unreachable",
    );
  });

  it("continues a cut download within the call", async () => {
    hub.faults.push(
      { kind: "cut", afterBytes: 100_000 },
      { kind: "cut", afterBytes: 0 },
      { kind: "status", status: 503 },
    );
    expectContent(await resolveModelPath("hf:org/single", options), "whatever.gguf");
    const offsets = downloads().map(({ range }) => Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1]));
    expect(offsets[0]).toBe(0);
    expect(offsets).toHaveLength(4);
    expect(offsets[3]).toBeGreaterThan(0);
  });

  it("continues a cut download in the next call", async () => {
    const cuts = { ...options, maxFruitlessAttempts: 1 };
    hub.faults.push({ kind: "cut", afterBytes: 100_000 }, { kind: "status", status: 500 });
    expect((await refusal(resolveModelPath("hf:org/single", cuts))).code).toBe("hub_unreachable");
    expect(leftovers()).toHaveLength(1);
    expectContent(await resolveModelPath("hf:org/single", cuts), "whatever.gguf");
    expect(downloads().at(-1)?.range).not.toBe("bytes=0-");
    expect(leftovers()).toEqual([]);
  });

  it("starts over where the server ignores the range", async () => {
    hub.faults.push({ kind: "cut", afterBytes: 100_000 }, { kind: "ignore-range" });
    expectContent(await resolveModelPath("hf:org/single", options), "whatever.gguf");
  });

  it.each(["corrupt", "too-long"] as const)("refuses %s content and keeps none of it", async (kind) => {
    hub.faults.push({ kind });
    expect((await refusal(resolveModelPath("hf:org/single", options))).code).toBe("hub_checksum");
    expectContent(await resolveModelPath("hf:org/single", options), "whatever.gguf");
    expect(downloads().at(-1)?.range).toBe("bytes=0-");
  });

  it("gives up on a hub that does not answer", async () => {
    await hub.close();
    const error = await refusal(resolveModelPath("hf:org/single", options));
    expect([error.code, error.message]).toEqual(["hub_unreachable", expect.stringContaining(hub.endpoint)]);
    expect((await refusal(resolveModelPath("hf:org/single", { ...options, endpoint: "no url" }))).code).toBe(
      "hub_spec",
    );
  });

  it("reads listings of several pages, other revisions, odd names", async () => {
    await hub.close();
    await start({ pageSize: 1 });
    expectContent(await resolveModelPath("hf:org/many:Q8_0", options), "m-Q8_0.gguf");
    const model = await resolveModelPath("hf:org/tagged@refs/pr/1", options);
    expectContent(model, "m.gguf");
    expect(model.path).toContain("refs--pr--1");
  });

  it("downloads once for all who ask at once", async () => {
    const models = await Promise.all(Array.from({ length: 4 }, () => resolveModelPath("hf:org/single", options)));
    for (const model of models) expectContent(model, "whatever.gguf");
    expect(downloads()).toHaveLength(1);
    expect(leftovers()).toEqual([]);
  });

  it("takes nothing of an older revision into a newer one, though sizes are the same", async () => {
    const [first, second] = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    const revision = (name: string): HubRepo => ({
      files: { [first!]: contentOf(`${name} 1`), [second!]: contentOf(`${name} 2`), "m-Q8_0.gguf": contentOf(name) },
    });
    const repos = { "org/moving": revision("old") };
    await hub.close();
    hub = await startHubServer(repos);
    const moving = { ...options, endpoint: hub.endpoint, maxFruitlessAttempts: 1 };
    await resolveModelPath("hf:org/moving:Q8_0", moving);
    // The first shard comes whole, the second does not.
    hub.faults.push({ kind: "cut", afterBytes: 300_000 }, { kind: "status", status: 500 });
    await refusal(resolveModelPath(`hf:org/moving:${first}`, moving));
    repos["org/moving"] = revision("new");
    const { files } = await resolveModelPath(`hf:org/moving:${first}`, moving);
    // Vitest's own comparison takes seconds for buffers of this size.
    const wanted = [contentOf("new 1"), contentOf("new 2")];
    expect(files.map((file, i) => readFileSync(file).equals(wanted[i]!))).toEqual([true, true]);
    // What was whole before stays as it was, and is found without the hub.
    await hub.close();
    const [kept] = (await resolveModelPath("hf:org/moving:Q8_0", moving)).files;
    expect(readFileSync(kept!).equals(contentOf("old"))).toBe(true);
  });

  it("says when the cache cannot be written", async () => {
    mkdirSync(join(folder, "cache"));
    writeFileSync(join(folder, "cache", "hub"), "a file where a folder should be");
    expect((await refusal(resolveModelPath("hf:org/single", options))).code).toBe("hub_cache");
  });
});

describe("token", () => {
  it("opens private repositories and is sent to the endpoint only", async () => {
    await hub.close();
    await start({ hasContentOrigin: true });
    const error = await refusal(resolveModelPath("hf:org/private", options));
    expect(error).toMatchObject({ code: "hub_not_found", hint: expect.stringContaining("HF_TOKEN") });
    expectContent(await resolveModelPath("hf:org/private", { ...options, token: "secret-token" }), "m.gguf");
    const content = hub.requests.filter(({ path }) => path.startsWith("/content/"));
    expect(content.map(({ authorization }) => authorization)).toEqual([undefined]);
  });

  it("does not appear in errors", async () => {
    await hub.close();
    const error = await refusal(resolveModelPath("hf:org/private", { ...options, token: "secret-token" }));
    expect(`${error.message} ${error.hint}`).not.toContain("secret-token");
  });
});
