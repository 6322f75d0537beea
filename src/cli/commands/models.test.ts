/** pull, list, rm and ps from arguments to output, against a local hub. */
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { startHubServer } from "../../../test/helpers/hub-server.js";
import { runMain } from "../../../test/helpers/run-main.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { loadIn } from "../../core/server-load.js";
import { registerServer } from "../../core/server-registry.js";

afterEach(() => vi.unstubAllEnvs());

function useCache(): string {
  const cache = tempTree({});
  vi.stubEnv("MILLRACE_CACHE", cache);
  return cache;
}

const json = async (...args: readonly string[]) => {
  const { stdout, stderr, exitCode } = await runMain(...args, "--json");
  return { record: stdout === "" ? undefined : JSON.parse(stdout), stderr, exitCode };
};

test("a model is pulled, listed and removed", async () => {
  const cache = useCache();
  const weights = Buffer.alloc(100_000, 7);
  const hub = await startHubServer({ "org/m": { files: { "m-Q8_0.gguf": weights } } });
  vi.stubEnv("HF_ENDPOINT", hub.endpoint);
  // A download resumes after a lost connection.
  hub.faults.push({ kind: "cut", afterBytes: 40_000 });
  const pulled = await json("pull", "org/m");
  expect(pulled.record).toEqual({ name: "hf:org/m", path: join(cache, "hub/org/m/main/m-Q8_0.gguf") });
  expect(hub.requests.map(({ range }) => range)).toContain("bytes=40000-");
  await hub.close();
  const name = "hf:org/m:m-Q8_0.gguf";
  const { record } = await json("list");
  expect(record.models).toContainEqual(
    expect.objectContaining({ name, numBytes: 100_000, isComplete: true, isBundled: false }),
  );
  expect(record.models).toContainEqual(expect.objectContaining({ name: "mill-base", isBundled: true }));
  const table = (await runMain("list")).stdout;
  expect(table).toMatch(/hf:org\/m:m-Q8_0.gguf +GGUF +97.7 KiB/);
  expect((await json("rm", name)).record).toEqual({ name, numFiles: 2, numBytes: expect.any(Number) });
  expect((await json("rm", name)).stderr).toContain("model_not_found");
});

test.each([
  [["pull", "./model.gguf"], "hub_spec"],
  [["pull", "hf:../x"], "hub_spec"],
  [["rm", "mill-base"], "model_not_found"],
  [["rm", "nothing here"], "hub_spec"],
])("%j is refused", async (args, code) => {
  useCache();
  const { stderr, exitCode } = await runMain(...args);
  expect(stderr).toContain(`error [${code}]`);
  expect(exitCode).toBe(1);
});

test("ps lists running servers, their requests, and servers that do not answer", async () => {
  const cache = useCache();
  expect((await runMain("ps")).stdout).toBe("no millrace server of this user is running\n");
  const server = createServer((_, response) => response.end("millrace:num_requests_running 2\n")).listen(
    0,
    "127.0.0.1",
  );
  await new Promise((resolve) => server.once("listening", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const remove = registerServer({ url, models: ["a", "b"], kind: "fleet", version: "1" }, cache);
  const { record } = await json("ps");
  const load = { running: 2, waiting: 0 };
  expect(record.servers).toEqual([expect.objectContaining({ url, models: ["a", "b"], pid: process.pid, load })]);
  await new Promise((resolve) => server.close(resolve));
  expect((await runMain("ps")).stdout).toMatch(/a, b +fleet .* no answer\n$/);
  remove();
  writeFileSync(join(cache, "servers", "x.json"), "{");
  expect((await json("ps")).record).toEqual({ servers: [] });
});

test("a fleet's load is the sum over its instances", () => {
  const metrics = [
    "# HELP millrace:num_requests_running x",
    'millrace:num_requests_running{instance="m-1"} 2',
    'millrace:num_requests_running{instance="m-2"} 3',
    'millrace:num_requests_waiting{instance="m-2"} 1',
    "millrace:num_requests_running_more 9",
  ].join("\n");
  expect(loadIn(metrics)).toEqual({ running: 5, waiting: 1 });
});
