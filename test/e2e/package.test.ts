/** What `npm run package` packs, installed into an empty folder and run where no compiler is. */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { post } from "../helpers/server.js";

/** Where ready-built kernels are made. */
const isPrebuilt = process.platform === "linux" && process.arch === "x64";
const TIMEOUT_MS = 180_000;
const NETWORK_FAILURE = /EAI_AGAIN|ENOTFOUND|ENOTCACHED|ECONNREFUSED|ECONNRESET|ETIMEDOUT/;

const folder = mkdtempSync(join(tmpdir(), "millrace-package-"));
const launcher = join(folder, "node_modules/.bin/millrace");
/** Why nothing could be installed. */
let problem: string | undefined;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeAll(() => {
  if (!isPrebuilt) return;
  const text = execFileSync(process.execPath, [join(repositoryRoot(), "scripts/package.js"), "linux-x64"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const tarballs = text.split("\n").flatMap((line) => /^(.*\.tgz) /.exec(line)?.[1] ?? []);
  // From npm's cache, which the checkout's own installation has filled; what is missing there comes from the registry.
  const args = ["install", "--prefer-offline", "--no-audit", "--no-fund", "--prefix", folder, ...tarballs];
  try {
    execFileSync("npm", args, { stdio: "pipe", encoding: "utf8" });
  } catch (error) {
    const output = String((error as { readonly stderr?: unknown }).stderr);
    if (!NETWORK_FAILURE.test(output)) throw error;
    problem = "npm has no network and not all packages in its cache";
  }
  // Nothing but Node is found there, so no compiler.
  mkdirSync(join(folder, "bin"));
  symlinkSync(process.execPath, join(folder, "bin/node"));
}, TIMEOUT_MS);

const env = { PATH: join(folder, "bin"), HOME: folder, MILLRACE_CACHE: join(folder, "cache") };

interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
}

function run(...args: readonly string[]): Promise<Ended> {
  const child = spawn(launcher, args, { cwd: folder, env });
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      texts[name] += text;
    });
  }
  return new Promise((resolve) => child.once("close", (exitCode) => resolve({ ...texts, exitCode })));
}

const packaged = (name: string, body: () => Promise<void>): void =>
  test.skipIf(!isPrebuilt)(
    `${name} (Linux x64 only)`,
    async (context) => {
      // Packages of others come from npm: without a network that is no fault of ours. Any other failure to install is
      // one.
      if (problem !== undefined) context.skip(problem);
      await body();
    },
    TIMEOUT_MS,
  );

packaged("the package answers without a compiler, and builds nothing", async () => {
  expect(readdirSync(join(folder, "node_modules"))).not.toContain("typescript");
  const { compiler, kernels } = JSON.parse((await run("doctor", "--json")).stdout);
  expect(compiler).toBeUndefined();
  expect(kernels).toMatchObject({ isLoaded: true });
  const generated = await run("generate", "--prompt", "Hello", "--max-tokens", "8", "--temperature", "0");
  expect(generated).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/\w/) });
  expect(generated.stderr).not.toContain("kernels");
  expect(existsSync(join(folder, "node_modules/millrace/build"))).toBe(false);
});

packaged("the package serves a chat and plans", async () => {
  const child = spawn(launcher, ["engine", "--port", "0"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", (line) => resolve(JSON.parse(line).url));
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  const messages = [{ role: "user", content: "Hello" }];
  const answer = await post<{ readonly choices: readonly { readonly message: { readonly content: string } }[] }>(
    `${url}/v1/chat/completions`,
    { model: "mill-base", messages, max_tokens: 8 },
  );
  expect(answer.choices[0]!.message.content).toMatch(/\w/);
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  expect(await ended).toBe(0);
  const plan = await run("plan", "--model", "llama-3.1-8b", "--hardware", "h100");
  expect(plan).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("vllm serve") });
});

packaged("the package has no sources to compile, and nothing to compile them with", async () => {
  const files = readdirSync(join(folder, "node_modules/millrace"), { recursive: true, encoding: "utf8" });
  expect(files.filter((file) => /\.(cc|h|ts)$/.test(file) && !/(^|\/)node_modules\//.test(file))).toEqual([]);
  expect(files).not.toContain("native");
  expect(files.filter((file) => /^scripts\/.*\.js$/.test(file))).toEqual(["scripts/setup/installed-kernels.js"]);
});

packaged("without compiled kernels it says which package is missing, and compiles nothing", async () => {
  rmSync(join(folder, "node_modules/millrace-linux-x64"), { recursive: true });
  const { exitCode, stderr } = await run("generate", "--prompt", "Hello");
  expect(exitCode).toBe(1);
  expect(stderr).not.toContain("compiling");
  expect(stderr).toMatch(
    /^error \[kernels_missing\]: expected .* or the package millrace-linux-x64 \d.*, got neither$/m,
  );
  expect(stderr).toMatch(/^hint: install the package millrace-linux-x64 .*docs\/guides\/install\.md$/m);
  expect((await run("plan", "--model", "llama-3.1-8b", "--hardware", "h100")).exitCode).toBe(0);
});
