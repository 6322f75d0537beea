/** `millrace boot` as a process, on a machine that was measured before; test/boot has the rest. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { FleetProcess } from "../helpers/fleet-process.js";

test("a second boot keeps the key and the report of the first", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-boot-"));
  const file = join(folder, "millrace.yaml");
  const model = { name: "mill-base", model: "models/mill-base.gguf", instances: 1 };
  const keys = [{ tenant: "default", key: "env:MILLRACE_API_KEY" }];
  writeFileSync(file, stringify({ host: "0.0.0.0", port: 0, "api-keys": keys, models: [model] }));
  writeFileSync(join(folder, "report.html"), "<p>measured</p>");
  await using fleet = await FleetProcess.run(["--config", file, "--state", folder], folder, "boot");
  const url = fleet.url.replace("0.0.0.0", "127.0.0.1");
  const key = readFileSync(join(folder, "api-key"), "utf8").trim();
  const ask = (authorization: string) => fetch(`${url}/v1/models`, { headers: { authorization } });
  expect([(await ask("Bearer wrong")).status, (await ask(`Bearer ${key}`)).status]).toEqual([401, 200]);
  expect(await (await fetch(`${url}/report`)).text()).toBe("<p>measured</p>");
  expect(fleet.text).toMatch(/^ {2}key +\S+api-key$[\s\S]*^ {2}ready .*\n {2}report http:\S+\/report$/m);
  expect(fleet.text).not.toContain(key);
  // It reads the file and its key again.
  process.kill(fleet.pid, "SIGHUP");
  await expect.poll(() => fleet.text, { timeout: 20_000 }).toMatch(/reloaded: applied; no process had to restart/);
});
