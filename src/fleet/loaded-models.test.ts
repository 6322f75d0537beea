/**
 * A gateway's administrator loads models from the disk beside the file's, unloads them, and pulls and removes them with
 * Ollama's API.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, expect, test, vi } from "vitest";
import { cannedLibrary } from "../../test/helpers/canned-library.js";
import { scriptProgram } from "../../test/helpers/fleet.js";
import { answerJson, startStandIn } from "../../test/helpers/stand-in.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { parseConfig } from "./config/read-config.js";
import { Fleet } from "./fleet.js";
import { servedName, usesOf } from "./loaded-models.js";

const machine = { cores: [[0]], splits: new Map(), millraceSeats: 1 } as const;

let close: () => Promise<void>;
afterEach(() => close());

async function start(more = "") {
  const engine = await startStandIn(answerJson({}));
  const folder = tempTree({});
  const disk = cannedLibrary();
  const config = (model: string) =>
    parseConfig(
      `
port: 0
data-folder: ${folder}
admin-key: boss
api-keys: [{ tenant: t, key: client }]
${more}
models:
  - { name: ${model}, engine: openai, attach: [{ url: "${engine.url}" }] }
`,
      "millrace.yaml",
      {},
    );
  const fleet = await Fleet.start({
    config: config("e"),
    machine,
    logger: pino({ level: "silent" }),
    logFolder: join(folder, "logs"),
    library: disk.library,
  });
  close = async () => {
    await fleet.close();
    await engine.die();
  };
  const ask = async (method: string, path: string, body?: object, key = "boss") => {
    const init = { method, headers: { authorization: `Bearer ${key}` } };
    const answer = await fetch(fleet.url + path, body === undefined ? init : { ...init, body: JSON.stringify(body) });
    return { status: answer.status, text: await answer.text() };
  };
  const names = async (): Promise<readonly string[]> => {
    const { text } = await ask("GET", "/v1/models", undefined, "client");
    return (JSON.parse(text) as { data: { id: string }[] }).data.map(({ id }) => id);
  };
  return { ...disk, ask, names, fleet, reload: (model: string) => fleet.reload(config(model), machine) };
}

const LOAD = "/admin/library/models/org/m/load";

test("a model is loaded, stays over a reload of the file, and is unloaded", async () => {
  const { ask, names, reload, fleet } = await start();
  expect(await ask("POST", LOAD)).toEqual({ status: 202, text: '{"model":"org/m","name":"org/m"}' });
  expect(await names()).toEqual(["e", "org/m"]);
  expect(fleet.uses()).toContain("/cache/m.gguf");
  const { data } = JSON.parse((await ask("GET", "/admin/instances")).text) as {
    data: { model: string; is_loaded: boolean }[];
  };
  expect(data.map(({ model, is_loaded }) => [model, is_loaded])).toEqual([
    ["e", false],
    ["org/m", true],
  ]);
  await reload("f");
  expect(await names()).toEqual(["f", "org/m"]);
  expect((await ask("DELETE", "/admin/models/org/m")).status).toBe(202);
  await expect.poll(names).toEqual(["f"]);
  expect((await ask("DELETE", "/admin/models/org/m")).status).toBe(404);
  expect((await ask("DELETE", "/admin/models/f")).status).toBe(404);
});

test("models of the disk are served on demand where the file asks for it, and are not in use before", async () => {
  const { library, names, reload, fleet, ask } = await start("serve-library: true");
  expect(await names()).toEqual(["e"]);
  library.servable = async () => [
    { name: "hf:org/m:m-Q4.gguf", path: "/cache/m-Q4.gguf" },
    { name: "hf:org/m:m-Q8.gguf", path: "/cache/m-Q8.gguf" },
    { name: "hf:org/n@v2", path: "/cache/n" },
    { name: "hf:org/with space:a b.gguf", path: "/cache/a b.gguf" },
  ];
  await reload("e");
  expect(await names()).toEqual(["e", "org/m:m-Q4.gguf", "org/m", "org/m:m-Q8.gguf", "org/n"]);
  expect(fleet.uses().join()).not.toContain("/cache");
  const { data } = JSON.parse((await ask("GET", "/admin/models")).text) as { data: { id: string }[] };
  expect(data.map(({ id }) => id)).toContain("org/n");
  library.servable = async () => [
    { name: "hf:org/e", path: "/cache/e" },
    { name: "hf:org/m:m-Q8.gguf", path: "/cache/m-Q8.gguf" },
  ];
  await reload("org/e");
  expect(await names()).toEqual(["org/e", "org/m:m-Q8.gguf", "org/m"]);
});

test("a name that there is, one with spaces, a model that is not on disk and one without memory are refused", async () => {
  const { ask, names, library } = await start();
  expect(await ask("POST", `${LOAD}?name=e`)).toMatchObject({
    status: 409,
    text: expect.stringContaining("already_exists"),
  });
  expect(await ask("POST", `${LOAD}?name=a%20b`)).toMatchObject({ status: 400, text: expect.stringContaining("name") });
  expect((await ask("POST", "/admin/library/models/org/none/load")).status).toBe(404);
  expect((await ask("POST", LOAD, undefined, "client")).status).toBe(401);
  const { hold } = library;
  library.hold = (name, use) => hold(name, (found) => use({ ...found, neededBytes: 3000 }));
  expect(await ask("POST", LOAD)).toMatchObject({ status: 503, text: expect.stringContaining("3000 bytes") });
  expect(await names()).toEqual(["e"]);
});

test("Ollama's pull and delete need the administrator's key; a model that is there is pulled by any client", async () => {
  const { ask, asked, set, end } = await start();
  expect((await ask("POST", "/api/pull", { model: "e:latest", stream: false }, "client")).status).toBe(200);
  expect((await ask("POST", "/api/pull", { model: "hf.co/org/m" }, "client")).status).toBe(404);
  expect((await ask("POST", "/api/pull", { model: "hf.co/org/m" }, "guess")).status).toBe(401);
  expect((await ask("DELETE", "/api/delete", { model: "hf.co/org/m" }, "client")).status).toBe(401);
  expect(asked).toEqual([]);
  set({ file: "m.gguf", receivedBytes: 3, totalBytes: 3 });
  end("done");
  const { text } = await ask("POST", "/api/pull", { model: "hf.co/org/m" });
  expect(text.split("\n").map((line) => (line === "" ? "" : (JSON.parse(line) as { status: string }).status))).toEqual([
    "pulling manifest",
    "pulling m.gguf",
    "verifying sha256 digest",
    "writing manifest",
    "success",
    "",
  ]);
  expect(await ask("DELETE", "/api/delete", { model: "hf.co/org/m:Q8_0" })).toEqual({ status: 200, text: "" });
  expect((await ask("GET", "/admin/library")).text).toBe('{"object":"list","data":[]}');
  expect(asked).toEqual(["pull hf.co/org/m", "remove hf.co/org/m:Q8_0"]);
});

test("a model's files are in use until its processes have ended", async () => {
  const folder = tempTree({});
  const [up, asked, leave] = ["up", "asked", "leave"].map((name) => join(folder, name)) as [string, string, string];
  const lingering = `
    const { existsSync, writeFileSync } = require("node:fs");
    process.on("SIGTERM", () => {
      writeFileSync(${JSON.stringify(asked)}, "");
      setInterval(() => existsSync(${JSON.stringify(leave)}) && process.exit(), 10);
    });
    writeFileSync(${JSON.stringify(up)}, "");
    setInterval(() => {}, 1000);`;
  const model = { name: "m", model: "/m.gguf", program: scriptProgram(lingering) };
  const withModels = (models: readonly object[]) =>
    parseConfig(JSON.stringify({ port: 0, "data-folder": folder, models }), "millrace.yaml", {});
  const attached = { name: "e", engine: "openai", attach: [{ url: "http://127.0.0.1:1" }] };
  const logger = pino({ level: "silent" });
  const config = withModels([model, attached]);
  const fleet = await Fleet.start({ config, machine, logger, logFolder: join(folder, "logs") });
  close = () => fleet.close();
  await vi.waitFor(() => expect(existsSync(up)).toBe(true), { timeout: 10_000 });
  const reload = fleet.reload(withModels([attached]), machine);
  await vi.waitFor(() => expect(existsSync(asked)).toBe(true), { timeout: 10_000 });
  expect(fleet.uses()).toContain("/m.gguf");
  writeFileSync(leave, "");
  await reload;
  expect(fleet.uses()).not.toContain("/m.gguf");
});

test("the texts that name a model's files are its path, its arguments and its options", () => {
  const { models } = parseConfig(
    'models: [{ name: m, model: /m.gguf, args: ["--x", "/y"], options: { speculative-config: { model: /d.gguf } } }]',
    "millrace.yaml",
    {},
  );
  expect(usesOf({ models })).toEqual(["/m.gguf", "--x", "/y", expect.stringContaining("/d.gguf")]);
  expect(servedName("hf:org/repo@v2:Q4_K_M")).toBe("org/repo");
  close = async () => {};
});
