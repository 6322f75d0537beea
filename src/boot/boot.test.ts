/** A first boot's parts: keys that are generated once, models that are pulled once, refusals before anything starts. */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { writeCertificate } from "../../test/helpers/certificate.js";
import { startHubServer } from "../../test/helpers/hub-server.js";
import { runMain } from "../../test/helpers/run-main.js";
import { silentStages } from "../core/stages.js";
import { parseConfig } from "../fleet/config/read-config.js";
import { assertClosed, provideKeys } from "./api-key.js";
import { assertGpu } from "./assert-gpu.js";
import { hubSpecOf, pullModels } from "./pull-models.js";
import { makeStateFolder } from "./state-folder.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-boot-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

describe("the keys", () => {
  const asks = "api-keys: [{tenant: default, key: env:MILLRACE_API_KEY}]";
  test("are generated once, readable by the server only, and read again later", () => {
    const [first, second]: NodeJS.ProcessEnv[] = [{}, {}];
    const both = `${asks}\nadmin-key: env:MILLRACE_ADMIN_KEY`;
    const files = ["api-key", "admin-key"].map((name) => join(folder, "state", name));
    for (const environment of [first!, second!])
      expect(provideKeys(both, join(folder, "state"), environment)).toEqual(files);
    expect(first!.MILLRACE_API_KEY).toMatch(/^[\w-]{43}$/);
    expect(first!.MILLRACE_ADMIN_KEY).toMatch(/^[\w-]{43}$/);
    expect(first!.MILLRACE_ADMIN_KEY).not.toBe(first!.MILLRACE_API_KEY);
    expect(second).toEqual(first);
    for (const file of files) expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test("that are given are kept, and none is generated unless the configuration asks for it", () => {
    const given = { MILLRACE_API_KEY: "mine" };
    expect(provideKeys(asks, folder, given)).toEqual([]);
    expect(given).toEqual({ MILLRACE_API_KEY: "mine" });
    expect(provideKeys("models: []", folder, {})).toEqual([]);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("that cannot be saved are an error, and so is an empty one", () => {
    writeFileSync(join(folder, "api-key"), "\n");
    expect(() => provideKeys(asks, folder, {})).toThrow(/got an empty file/);
    expect(() => provideKeys(asks, join(folder, "api-key/state"), {})).toThrow(/expected to keep a key/);
  });

  test("is required wherever others can connect", () => {
    const config = (host: string) => parseConfig(`host: ${host}\nmodels: [{name: m, model: /m}]`, "x", {});
    for (const host of ["127.0.0.1", "localhost", "'::1'", "127.9.9.9"]) assertClosed(config(host), "x");
    for (const host of ["0.0.0.0", "'::'", "10.0.0.1", "127.0.0.1.example.com", "localhost.example.com"]) {
      expect(() => assertClosed(config(host), "x"), host).toThrow(/expected api-keys in x/);
    }
  });
});

test("models of the hub are told from local ones", () => {
  expect(hubSpecOf({ engine: "vllm", model: "org/repo" })).toBe("hf:org/repo");
  expect(hubSpecOf({ engine: "millrace", model: "hf:org/repo:Q4_K_M" })).toBe("hf:org/repo:Q4_K_M");
  for (const model of ["/models/m", undefined]) expect(hubSpecOf({ engine: "vllm", model })).toBeUndefined();
  expect(hubSpecOf({ engine: "millrace", model: "org/repo" })).toBeUndefined();
  expect(hubSpecOf({ engine: "ollama", model: "org/repo" })).toBeUndefined();
});

describe("pulling", () => {
  const configWith = (file: string) =>
    parseConfig(`models: [{name: m, engine: vllm, model: org/repo}, {name: n, model: ${file}}]`, "x", {});
  const files = { "config.json": Buffer.from("{}"), "model.safetensors": Buffer.alloc(1000) };

  test("two processes fetch a model once, and both get its folder", async () => {
    const hub = await startHubServer({ "org/repo": { files } });
    vi.stubEnv("MILLRACE_CACHE", folder);
    vi.stubEnv("HF_ENDPOINT", hub.endpoint);
    const file = join(folder, "n.gguf");
    writeFileSync(file, "");
    const config = configWith(file);
    try {
      const both = await Promise.all([pullModels(config, silentStages), pullModels(config, silentStages)]);
      for (const { models } of both) {
        expect(models.map(({ model }) => model)).toEqual([join(folder, "hub/org/repo/main"), file]);
      }
      expect(readFileSync(join(folder, "hub/org/repo/main/model.safetensors")).length).toBe(1000);
      expect(hub.requests.filter(({ path }) => path.endsWith("model.safetensors"))).toHaveLength(1);
      expect(readdirSync(join(folder, "hub/org/repo/main")).sort()).toEqual([
        "config.json",
        "listing.json",
        "model.safetensors",
      ]);
    } finally {
      await hub.close();
    }
  });
});

describe("commands", () => {
  const write = (text: string): string => {
    const file = join(folder, "millrace.yaml");
    writeFileSync(file, text);
    return file;
  };

  test("boot refuses an open server before anything is pulled", async () => {
    const file = write("host: 0.0.0.0\nmodels: [{name: m, model: /m.gguf}]\n");
    const { stderr, exitCode } = await runMain("boot", "--config", file, "--state", folder);
    expect(stderr).toMatch(/error \[config_conflict\]: expected api-keys/);
    expect(exitCode).toBe(1);
  });

  test("boot ends with an error for a model that is neither local nor on the hub", async () => {
    const file = write("host: 127.0.0.1\nmodels: [{name: m, model: nowhere.gguf}]\n");
    const { stderr, exitCode } = await runMain("boot", "--config", file, "--state", folder);
    expect(stderr).toMatch(/error \[file_unreadable\]: expected the model of m at nowhere.gguf/);
    expect(exitCode).toBe(1);
  });

  test("the state folder is created, or refused before anything starts", () => {
    const state = join(folder, "a/b");
    makeStateFolder(state);
    expect(statSync(state).isDirectory()).toBe(true);
    writeFileSync(join(folder, "file"), "");
    expect(() => makeStateFolder(join(folder, "file/state"))).toThrow(/expected a folder that can be written/);
  });

  test("boot wants a configuration", async () => {
    expect((await runMain("boot")).stderr).toMatch(/error \[invalid_option\].*--config/);
  });

  test("health asks the server at the port of its configuration", async () => {
    let status = 200;
    const server = createServer((_, response) => response.writeHead(status).end());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const file = write(`host: 0.0.0.0\nport: ${port}\nadmin-key: env:NOBODY_SET\nmodels: [{name: m, model: /m}]\n`);
    try {
      expect(await runMain("health", "--config", file)).toEqual({ stdout: "ok\n", stderr: "", exitCode: 0 });
      status = 503;
      const sick = await runMain("health", "--url", `http://127.0.0.1:${port}`);
      expect(sick.stderr).toMatch(/error \[no_instance_ready\]: .* got 503/);
      expect(sick.exitCode).toBe(1);
    } finally {
      server.close();
    }
    expect((await runMain("health", "--url", `http://127.0.0.1:${port}`)).stderr).toMatch(/got no answer/);
    expect((await runMain("health", "--url", "localhost")).stderr).toMatch(/error \[invalid_option\].*http URL/);
  });
});

test("health asks a server by HTTPS as well, whatever name its certificate has", async () => {
  const { certfile, keyfile, cert, key } = writeCertificate(folder);
  const server = createTlsServer({ cert, key }, (_, response) => response.end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const file = join(folder, "millrace.yaml");
  writeFileSync(
    file,
    `host: 0.0.0.0\nport: ${port}\nssl-certfile: ${certfile}\nssl-keyfile: ${keyfile}\nmodels: [{name: m, model: /m}]\n`,
  );
  try {
    expect(await runMain("health", "--config", file)).toEqual({ stdout: "ok\n", stderr: "", exitCode: 0 });
    // A typed address may be another machine's.
    expect((await runMain("health", "--url", `https://127.0.0.1:${port}`)).stderr).toMatch(
      /got no answer \(DEPTH_ZERO_SELF_SIGNED_CERT\)/,
    );
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

describe("the GPU", () => {
  const config = (gpus: string) =>
    parseConfig(`models: [{name: m, engine: vllm, model: org/m, instances: 1${gpus}}]`, "millrace.yaml", {});
  const bus = (vendor: string): string => {
    const devices = join(folder, "devices");
    mkdirSync(join(devices, "0000:00:04.0"), { recursive: true });
    writeFileSync(join(devices, "0000:00:04.0", "vendor"), `${vendor}\n`);
    return devices;
  };

  test("is asked for by models that name gpus, and found by its vendor; vLLM may compute on a CPU", () => {
    const named = config(", gpus: [0]");
    expect(() => assertGpu(named, bus("0x1af4"))).toThrow(/expected a GPU of NVIDIA or AMD on the PCI bus for m/);
    expect(() => assertGpu(named, join(folder, "no-bus"))).toThrow(/got none/);
    expect(() => assertGpu(config(""), join(folder, "no-bus"))).not.toThrow();
    for (const vendor of ["0x10de", "0x1002"]) expect(() => assertGpu(named, bus(vendor))).not.toThrow();
  });
});
