/**
 * `millrace canary` against a gateway with the real engine: one seat is slower than many, and Ctrl-C takes a canary
 * back.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { runCli } from "../helpers/run-cli.js";

let fleet: FleetProcess;
beforeAll(async () => {
  fleet = await FleetProcess.start({
    models: [{ name: "mill-base", model: join(repositoryRoot(), "models/mill-base.gguf"), options: { threads: 1 } }],
  });
}, 60_000);
afterAll(() => fleet?.[Symbol.asyncDispose]());

const SLOW = { timeout: 120_000 };
const canary = (...words: readonly string[]) =>
  runCli("canary", ...words, "--url", fleet.url, "--admin-key", "fleet-admin", "--json");

async function ask(): Promise<number> {
  const response = await fetch(`${fleet.url}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "mill-base", prompt: "Once upon", max_tokens: 24, stream: true }),
  });
  await response.text();
  return response.status;
}

test("a canary with one seat is stopped as slower, and the command says so", SLOW, async () => {
  let isOver = false;
  const statuses = new Set<number>();
  const clients = Array.from({ length: 12 }, async () => {
    while (!isOver) statuses.add(await ask());
  });
  const { stdout, stderr, exitCode } = await canary("start", "mill-base", "--server-args", "--max-num-seqs 1");
  isOver = true;
  await Promise.all(clients);
  expect(JSON.parse(stdout), stderr).toMatchObject({ state: "slower", args: ["--max-num-seqs", "1"], share: 0 });
  expect(exitCode).toBe(1);
  expect(statuses).toEqual(new Set([200]));
  const { data } = JSON.parse((await canary("list")).stdout);
  expect(data).toMatchObject([{ object: "canary", model: "mill-base", state: "slower" }]);
});

test("Ctrl-C stops the canary that the command started", SLOW, async () => {
  const words = ["canary", "start", "mill-base", "--url", fleet.url, "--admin-key", "fleet-admin"];
  const child = spawn(process.execPath, [join(repositoryRoot(), "bin/millrace.js"), ...words], { stdio: "ignore" });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const state = async () => ((await fleet.admin("GET", "/admin/canaries/mill-base")) as { state: string }).state;
  await vi.waitFor(async () => expect(await state()).toBe("running"), { timeout: 60_000 });
  child.kill("SIGINT");
  expect(await ended).toBe(130);
  expect(await state()).toBe("stopped");
});

test("a duration that is none is refused", SLOW, async () => {
  const { stderr, exitCode } = await canary("start", "mill-base", "--for", "soon");
  expect(exitCode).toBe(2);
  expect(stderr).toContain("expected --for to be a duration from 3s to 7d, such as 30m, got");
});
