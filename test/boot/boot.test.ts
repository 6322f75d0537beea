/**
 * From nothing to an answer and a report: the rendered user data in a bare Debian, by cloud-init and systemd
 * themselves, without a compiler. MILLRACE_BOOT=1 (npm run test:boot); the machine listens on port 8000 of this one.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { runCli } from "../helpers/run-cli.js";
import { Machine, whyNoMachine } from "./machine.js";

const script = join(repositoryRoot(), "scripts/package.js");
const why = whyNoMachine() ?? (existsSync(script) ? undefined : "needs scripts/package.js, which makes the packages");
const MINUTE = 60_000;
const URL_ = "http://127.0.0.1:8000";

let folder: string;
let server: Server;
let machine: Machine;

/** Where npm gets the packages from, as from a release's page. */
async function servePackages(): Promise<readonly string[]> {
  execFileSync(process.execPath, [script, `${process.platform}-${process.arch}`], { stdio: "inherit" });
  const packages = join(repositoryRoot(), "build/packages");
  const names = readdirSync(packages).filter((name) => name.endsWith(".tgz"));
  server = createServer(({ url = "" }, response) => {
    const name = names.find((each) => url === `/${each}`);
    if (name === undefined) response.writeHead(404).end();
    else response.end(readFileSync(join(packages, name)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return names.flatMap((name) => ["--package", `http://127.0.0.1:${port}/${name}`]);
}

/** Asks until it says yes. @param complain told when time is over */
async function until(what: () => Promise<boolean>, timeoutMs: number, complain: () => Promise<string>): Promise<void> {
  for (const end = Date.now() + timeoutMs; Date.now() < end; await wait(2000))
    if (await what().catch(() => false)) return;
  throw new Error(await complain());
}

const log = async (): Promise<string> =>
  `${await machine.tell("tail", "-20", "/var/log/cloud-init-output.log")}\n${await machine.tell("journalctl", "--namespace", "millrace", "--no-pager", "-n", "40")}`;

beforeAll(async () => {
  if (why !== undefined) return;
  folder = mkdtempSync(join(tmpdir(), "millrace-boot-"));
  writeFileSync(join(folder, "plan.yaml"), "models: [{name: mill-base, model: models/mill-base.gguf, instances: 1}]\n");
  const out = ["--out", join(folder, "image"), "--preset", join(folder, "plan.yaml"), "--model", "bundled"];
  const { exitCode, stderr } = await runCli(
    "image",
    "render",
    "--target",
    "cloud-init",
    ...out,
    ...(await servePackages()),
  );
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  machine = await Machine.boot(folder, readFileSync(join(folder, "image/user-data"), "utf8"));
}, 15 * MINUTE);

// Needs root, debootstrap and minutes: `why` says which of them is missing, and the summary shows it beside each test.
beforeEach((context) => {
  if (why !== undefined) context.skip(why);
});

afterAll(async () => {
  await machine?.[Symbol.asyncDispose]();
  server?.close();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}, 10 * MINUTE);

test("cloud-init installs it, without a compiler", { timeout: 20 * MINUTE }, async () => {
  await until(async () => /status: done/.test(await machine.tell("cloud-init", "status")), 15 * MINUTE, log);
  expect(await machine.compilers()).toEqual([]);
  const failed = await machine.tell("systemctl", "--failed", "--no-legend", "--plain");
  expect(failed).not.toMatch(/millrace|cloud/);
});

test("a chat is answered, for the key that the machine made", { timeout: 10 * MINUTE }, async () => {
  await until(async () => (await fetch(`${URL_}/health`)).status === 200, 5 * MINUTE, log);
  const ask = (headers: Record<string, string>) =>
    fetch(`${URL_}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({
        model: "mill-base",
        messages: [{ role: "user", content: "Tell me a short story about a fox." }],
        max_tokens: 40,
      }),
    });
  expect((await ask({})).status).toBe(401);
  const key = (await machine.run("cat", "/var/lib/millrace/api-key")).trim();
  const answer = (await (await ask({ authorization: `Bearer ${key}` })).json()) as {
    choices: [{ message: { content: string } }];
  };
  expect(answer.choices[0].message.content).toMatch(/fox/);
  const pid = (await machine.run("systemctl", "show", "--property", "MainPID", "--value", "millrace.service")).trim();
  expect((await machine.run("stat", "-c", "%U", `/proc/${pid}`)).trim()).toBe("millrace");
});

test("the bench's report is served", { timeout: 15 * MINUTE }, async () => {
  await until(async () => (await fetch(`${URL_}/report`)).status === 200, 12 * MINUTE, log);
  const report = await (await fetch(`${URL_}/report`)).text();
  expect(report).toMatch(/128\/64/);
  expect(report).toMatch(/all ÷ vanilla/);
});

test("units are valid there, the health check passes, and it stops and starts cleanly", {
  timeout: 5 * MINUTE,
}, async () => {
  expect(await machine.run("systemd-analyze", "verify", "millrace.service", "millrace-health.timer")).toBe("");
  await machine.run("systemctl", "start", "millrace-health.service");
  await machine.run("systemctl", "restart", "millrace.service");
  await until(async () => (await fetch(`${URL_}/health`)).status === 200, MINUTE, log);
  // Measured once: the report is there at once.
  expect((await fetch(`${URL_}/report`)).status).toBe(200);
});
