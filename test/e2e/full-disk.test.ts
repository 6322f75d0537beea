/**
 * A disk that takes no more: what can do without goes on, what cannot ends with a code. In place of a full disk the
 * processes may not write files beyond 8 KiB (EFBIG instead of ENOSPC), which needs no disk of its own.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { openSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, expect, test } from "vitest";
import { fixture, repositoryRoot } from "../helpers/fixtures.js";
import { until } from "../helpers/fleet-process.js";
import { startHubServer } from "../helpers/hub-server.js";
import { tempTree } from "../scripts/temp-tree.js";

const LAUNCHER = join(repositoryRoot(), "bin/millrace.js");
const PROMPT = "Once upon a time there was a little fox who lived by the river and counted all the stones. ".repeat(2);
const running: ChildProcess[] = [];
afterEach(() => {
  for (const child of running.splice(0)) child.kill("SIGKILL");
});

/** Runs millrace where no file grows beyond 8 or, by the shell's taste, 16 blocks of 1 KiB. */
function start(args: readonly string[], env: Record<string, string>, stderr: "pipe" | number = "pipe"): ChildProcess {
  const command = ["-c", 'ulimit -f 16; exec "$0" "$@"', process.execPath, LAUNCHER, ...args];
  const child = spawn("sh", command, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", stderr] });
  running.push(child);
  return child;
}

async function urlOf(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) {
    const { event, url } = JSON.parse(line) as { event?: string; url?: string };
    if (event === "ready") return url!;
  }
  throw new Error("expected a server that becomes ready, got one that ended");
}

const ask = (url: string, body: object) =>
  fetch(`${url}/v1/completions`, { method: "POST", body: JSON.stringify({ max_tokens: 2, ...body }) });

test.each([
  "json",
  "text",
])("a server continues to serve when its log, as %s, and its prefix cache cannot be written", async (format) => {
  const cache = tempTree({});
  const log = join(cache, "stderr.log");
  writeFileSync(log, "x".repeat(17 * 1024));
  const flags = ["engine", "--port", "0", "--model", fixture("models/stories260k.gguf"), "--prefix-cache-disk", "1GiB"];
  flags.push("--block-size", "64", "--log-format", format);
  const child = start(flags, { MILLRACE_CACHE: cache }, openSync(log, "a"));
  const url = await urlOf(child);
  for (let round = 0; round < 3; round++) {
    expect((await ask(url, { prompt: `${round} ${PROMPT}` })).status).toBe(200);
    // Something to be logged.
    expect((await ask(url, { prompt: "a", temperature: -1 })).status).toBe(400);
  }
  const dropped = async () => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return Number(/^millrace:prefix_cache_disk_dropped\w*(?:\{.*\})? (\d+)/m.exec(metrics)?.[1] ?? 0);
  };
  await until(async () => (await dropped()) > 0, "blocks that could not be written");
  expect((await ask(url, { prompt: PROMPT })).status).toBe(200);
  // A write that is under way still has its temporary file.
  const leftovers = () => readdirSync(cache, { recursive: true }).filter((name) => /\.tmp$|\.kv$/.test(String(name)));
  await until(() => leftovers().length === 0, "the files of refused writes to be removed");
});

test("a download to a full disk ends with a code and the file's name", async () => {
  const hub = await startHubServer({ "org/model": { files: { "model.gguf": Buffer.alloc(64 * 1024, 1) } } });
  try {
    const child = start(["pull", "hf:org/model:model.gguf"], {
      HF_ENDPOINT: hub.endpoint,
      MILLRACE_CACHE: tempTree({}),
    });
    let stderr = "";
    child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    expect(await new Promise((resolve) => child.once("close", resolve))).toBe(1);
    expect(stderr).toMatch(/^error \[hub_cache\]: expected to keep \S*model\.gguf\S* in the model cache, got EFBIG/m);
  } finally {
    await hub.close();
  }
});
