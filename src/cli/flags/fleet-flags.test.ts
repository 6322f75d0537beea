import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Command } from "commander";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { allowedCpus } from "../../core/cpu.js";
import {
  addFleetOptions,
  assertConversationsHaveOwners,
  type FleetFlags,
  fleetConfigFrom,
  isFleet,
} from "./fleet-flags.js";
import { addServerOptions } from "./server-options.js";

let attached: Server;
let url: string;
beforeAll(async () => {
  attached = createServer((_, outgoing) => outgoing.end(JSON.stringify({ data: [{ id: "their-model" }] })));
  await new Promise<void>((resolve) => attached.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(attached.address() as AddressInfo).port}`;
});
afterAll(() => {
  attached.close();
  attached.closeAllConnections();
});

async function parse(...args: string[]): Promise<{ flags: FleetFlags; command: Command }> {
  const command = addServerOptions(addFleetOptions(new Command("serve"))).exitOverride();
  let flags: FleetFlags | undefined;
  command.action((parsed: FleetFlags) => {
    flags = parsed;
  });
  await command.parseAsync(args, { from: "user" });
  return { flags: flags!, command };
}

async function configOf(...args: string[]) {
  const { flags, command } = await parse(...args);
  return fleetConfigFrom(flags, command, args);
}

test("without a flag of the fleet, serve is one engine", async () => {
  expect(isFleet((await parse("--port", "0", "--max-num-seqs", "3")).flags)).toBe(false);
  expect(isFleet((await parse("--instances", "2")).flags)).toBe(true);
});

test("conversations are kept by a gateway with keys alone", async () => {
  const own = ["--instances", "1", "--model", "x.gguf", "--keep-conversations"];
  const { conversations, models } = await configOf(...own, "--api-key", "sk-1");
  expect(conversations?.perClient).toBe(200);
  expect(models[0]!.args).toEqual([]);
  expect((await configOf("--instances", "1", "--model", "x.gguf")).conversations).toBeUndefined();
  await expect(configOf(...own)).rejects.toThrow(/expected --api-key with --keep-conversations/);
  const { flags } = await parse("--keep-conversations", "--api-key", "sk-1");
  expect(() => assertConversationsHaveOwners(flags)).toThrow(/expected --instances or --attach with/);
});

describe("simple fleets", () => {
  test("instances of a model: the engine's flags are passed on as written", async () => {
    const config = await configOf(
      "--model",
      "a/b.gguf",
      "--instances",
      "2",
      "--port=9000",
      "--max-num-seqs=3",
      "--no-enable-prefix-caching",
      "--kv-cache-memory-bytes",
      "1GiB",
      "--served-model-name",
      "one,two",
      "--api-key",
      "sk-1",
    );
    expect(config).toMatchObject({
      port: 9000,
      models: [{ name: "one", aliases: ["two"], instances: 2, model: "a/b.gguf" }],
    });
    expect(config.models[0]?.args).toEqual([
      "--max-num-seqs=3",
      "--no-enable-prefix-caching",
      "--kv-cache-memory-bytes",
      "1GiB",
    ]);
    expect(config.apiKeys.map(({ tenant, key }) => [tenant, key.reveal()])).toEqual([["key-1", "sk-1"]]);
  });

  test("the certificate is the gateway's", async () => {
    const pair = ["--ssl-certfile", "c.pem", "--ssl-keyfile=k.pem"];
    const config = await configOf("--instances", "2", "--model", "x.gguf", ...pair);
    expect([config.sslCertfile, config.sslKeyfile, config.models[0]?.args]).toEqual(["c.pem", "k.pem", []]);
    await expect(configOf("--instances", "2", "--model", "x.gguf", "--ssl-keyfile", "k.pem")).rejects.toThrow(
      /expected --ssl-certfile and --ssl-keyfile together, got one of them/,
    );
  });

  test("access and sharing between keys are the gateway's", async () => {
    const flags = ["--instances", "2", "--allowed-origins", "http://a,http://b", "--isolate-api-keys"];
    const config = await configOf(...flags, "--api-key", "sk-1,sk-2");
    expect(config.allowedOrigins).toEqual(["http://a", "http://b"]);
    expect(config.models[0]).toMatchObject({ args: [], env: {} });
    expect(config.isolateApiKeys).toBe(true);
    expect((await configOf("--instances", "2", "--no-isolate-api-keys")).isolateApiKeys).toBe(false);
    const plain = await configOf("--instances", "2");
    expect([plain.isolateApiKeys, plain.allowedOrigins]).toEqual([undefined, undefined]);
    await expect(configOf("--instances", "2", "--isolate-api-keys")).rejects.toThrow(/expected --api-key with/);
  });

  test.skipIf(process.platform !== "linux")("the CPUs are shared by all instances", async () => {
    const [cpu] = allowedCpus();
    const config = await configOf("--instances", "2", "--cpu-affinity", `${cpu}`, "--threads", "1");
    expect(config.models[0]).toMatchObject({ cores: [cpu], args: ["--threads", "1"] });
    await expect(parse("--cpu-affinity", "0-99999999999")).rejects.toThrow(/--cpu-affinity to be a list of CPUs among/);
  });

  test("auto, and the bundled model", async () => {
    expect(await configOf("--instances", "auto")).toMatchObject({ models: [{ name: "mill-base", instances: "auto" }] });
  });

  test("an attached server tells its model's name", async () => {
    const config = await configOf("--attach", url);
    expect(config.models[0]).toMatchObject({ name: "their-model", engine: "openai", attach: [{ url }] });
  });

  test("instances and attached servers of one model", async () => {
    const config = await configOf("--attach", url, "--instances", "1", "--model", "x.gguf");
    expect(config.models[0]).toMatchObject({ name: "x", engine: "millrace", instances: 1, attach: [{ url }] });
  });
});

describe("refused", () => {
  test.each([
    ["other flags beside a file", ["--config", "f.yaml", "--port", "1"], /expected --config alone, got --port/],
    ["engine flags beside a file", ["--config", "f.yaml", "--max-num-seqs", "1"], /got --max-num-seqs/],
    ["a missing file", ["--config", "/nowhere/f.yaml"], /expected a configuration file.*got no file of that name/],
    ["no instances", ["--instances", "0"], /--instances to be an integer in \[1, 256\]/],
    [
      "a server with a user",
      ["--attach", "http://u:p@127.0.0.1:1", "--served-model-name", "m"],
      /expected flags of a fleet, got models\.0\.attach\.0\.url: /,
    ],
    [
      "an engine's flag for attached servers",
      ["--attach", "http://h:1", "--max-num-seqs", "3"],
      /expected no --max-num-seqs/,
    ],
    [
      "keys that they do not isolate",
      ["--attach", "http://h:1", "--isolate-api-keys", "--api-key", "a"],
      /expected no --isolate/,
    ],
    ["a server that is not there", ["--attach", "http://127.0.0.1:9"], /\/v1\/models to name a model, got no answer/],
  ])("%s", async (_, args, message) => {
    await expect(configOf(...args)).rejects.toThrow(message);
  });
});
