#!/usr/bin/env node
/**
 * Runs third-party clients, unmodified from PyPI and npm, against a server with the bundled model, and prints which
 * passed, and in which version.
 *
 *   node scripts/clients/run.js [--folder DIR] [--only NAME]
 *
 * Each client is installed in a folder outside the checkout (DIR; a temporary one by default), where the next run finds
 * it. The bundled model has no tools of its own: a template gives it some, and forcing determines an answer's form.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const { values } = parseArgs({ options: { folder: { type: "string" }, only: { type: "string" } } });
const folder = resolve(values.folder ?? join(tmpdir(), "server-clients"));
const TIMEOUT_MS = 600_000;

/** The packages that pip installs for each Python client. */
const PACKAGES = {
  "openai-agents": "openai-agents",
  "pydantic-ai": "pydantic-ai-slim[openai]",
  langchain: "langchain-openai",
  instructor: "instructor",
  types: "openai anthropic",
  // Calls with tools import this extra.
  litellm: "litellm[mcp]",
  guidellm: "guidellm",
  "lm-eval": "lm-eval[api]",
};
const NODE = ["ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "zod"];

const script = (name) => join(here, name);
const python = (client) => join(folder, client, "bin", "python");

const pythonClient = (name, command) => ({
  name,
  install: () => installPython(name, PACKAGES[name]),
  version: () => pythonVersion(name, PACKAGES[name]),
  command: command ?? (() => [python(name), script(`${name.replaceAll("-", "_")}_client.py`)]),
});

/** Each client's name, packages, version and command; its exit status says whether it passed. */
const CLIENTS = [
  ...["openai-agents", "pydantic-ai", "langchain", "instructor", "litellm", "types"].map((name) => pythonClient(name)),
  { name: "ai-sdk", install: installNode, version: nodeVersion, command: aiSdk },
  pythonClient("guidellm", guidellm),
  pythonClient("lm-eval", lmEval),
];

/** Installers end with warnings: the message shows the lines before them, which name the failure. */
function check({ status, stderr }, what) {
  if (status === 0) return;
  const lines = String(stderr).trim().split("\n");
  const errors = lines.filter((line) => /error/i.test(line));
  throw new Error(`${what}: ${(errors.length > 0 ? errors : lines).slice(-3).join(" ")}`);
}

/** Each client has its own environment: together, their requirements on shared packages leave only old versions. */
function installPython(client, requirement) {
  const marker = join(folder, client, "installed");
  if (existsSync(marker)) return;
  check(spawnSync("python3", ["-m", "venv", join(folder, client)]), "python3 -m venv");
  check(spawnSync(python(client), ["-m", "pip", "install", "--quiet", ...requirement.split(" ")]), "pip install");
  writeFileSync(marker, requirement);
}

function pythonVersion(client, requirement) {
  const name = requirement.replace(/[[ ].*/, "");
  const print = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";
  const found = spawnSync(python(client), ["-c", print, name], { encoding: "utf8" });
  check(found, name);
  return `${name} ${found.stdout.trim()}`;
}

function installNode() {
  const to = join(folder, "node");
  if (existsSync(join(to, "node_modules/ai"))) return;
  mkdirSync(to, { recursive: true });
  writeFileSync(join(to, "package.json"), JSON.stringify({ private: true }));
  check(spawnSync("npm", ["install", "--no-audit", "--no-fund", ...NODE], { cwd: to }), "npm install");
}

function nodeVersion() {
  const manifest = (name) => JSON.parse(readFileSync(join(folder, "node/node_modules", name, "package.json"), "utf8"));
  return NODE.map((name) => `${name} ${manifest(name).version}`).join(", ");
}

/** Node resolves imports from a module's own folder. */
function aiSdk() {
  const copy = join(folder, "node", "ai-sdk.mjs");
  writeFileSync(copy, readFileSync(script("ai-sdk.mjs")));
  return [process.execPath, copy];
}

/** With its defaults, but prompts of our own: its tokenizers are on a hub. */
function guidellm({ url, model }) {
  const data = join(folder, "prompts.jsonl");
  const prompts = Array.from({ length: 16 }, (_, n) =>
    JSON.stringify({ prompt: `What is ${n} + ${n}?`, output_tokens_count: 16 }),
  );
  writeFileSync(data, prompts.join("\n"));
  const options = {
    backend: `kind=openai_http,target=${url},model=${model}`,
    data: `kind=json_file,path=${data}`,
    profile: "kind=synchronous",
    constraint: "kind=max_requests,count=16",
    output: `kind=json,path=${join(folder, "guidellm.json")}`,
  };
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  return [join(folder, "guidellm/bin/guidellm"), "run", ...flags, "--disable-console-interactive"];
}

function lmEval({ url, model }) {
  const data = join(folder, "arithmetic.jsonl");
  const rows = Array.from({ length: 12 }, (_, n) => ({
    question: `${n} + ${n} =`,
    choices: [` ${2 * n}`, ` ${2 * n + 1}`],
    label: 0,
  }));
  writeFileSync(data, rows.map((row) => JSON.stringify(row)).join("\n"));
  const tasks = join(folder, "tasks");
  mkdirSync(tasks, { recursive: true });
  writeFileSync(join(tasks, "task.yaml"), readFileSync(script("lm-eval-task.yaml"), "utf8").replace("TASK_DATA", data));
  const args = `model=${model},base_url=${url}/v1/completions,tokenizer_backend=remote,num_concurrent=2`;
  const flags = ["--model", "local-completions", "--model_args", args, "--include_path", tasks];
  return [join(folder, "lm-eval/bin/lm_eval"), "run", ...flags, "--tasks", "server_arithmetic"];
}

const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

async function startServer() {
  const port = await freePort();
  const flags = ["--port", String(port), "--chat-template", script("tools.jinja")];
  // The server's log, which has the reason if it ends.
  const log = openSync(join(folder, "server.log"), "w");
  const stdio = ["ignore", log, log];
  const server = spawn(process.execPath, [join(root, "bin/millrace.js"), "serve", ...flags], { stdio });
  const url = `http://127.0.0.1:${port}`;
  for (let waited = 0; waited < 120; waited++) {
    const models = await fetch(`${url}/v1/models`).then(
      (answer) => answer.json(),
      () => undefined,
    );
    if (models !== undefined) return { server, url, model: models.data[0].id };
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  server.kill();
  throw new Error("the server did not start within two minutes");
}

function run([command, ...args], { url, model }) {
  const env = {
    ...process.env,
    SERVER_URL: url,
    MODEL: model,
    OPENAI_API_KEY: "none",
    HF_HUB_OFFLINE: "1",
    LITELLM_LOCAL_MODEL_COST_MAP: "True",
    PYTHONWARNINGS: "ignore",
  };
  const { status, stdout, stderr } = spawnSync(command, args, {
    env,
    cwd: folder,
    timeout: TIMEOUT_MS,
    encoding: "utf8",
    maxBuffer: 64e6,
  });
  writeFileSync(join(folder, "last-output.txt"), `${stdout}\n${stderr}`);
  if (status === 0) return { isPassed: true, reason: "", output: stdout };
  const lines = `${stdout}\n${stderr}`
    .trim()
    .split("\n")
    .filter((line) => line.trim() !== "");
  return {
    isPassed: false,
    reason: status === null ? "out of time" : lines.slice(-2).join(" ").slice(0, 300),
    output: stdout,
  };
}

/** Failures that a benchmark's report shows in addition to its exit status. */
function failuresIn(name) {
  if (name !== "guidellm") return undefined;
  const report = JSON.parse(readFileSync(join(folder, "guidellm.json"), "utf8"));
  const totals = report.benchmarks.map(({ metrics }) => metrics.request_totals);
  const numFailed = totals.reduce((sum, { errored }) => sum + errored, 0);
  const numDone = totals.reduce((sum, { successful }) => sum + successful, 0);
  return numFailed === 0 && numDone > 0 ? undefined : `${numFailed} requests failed, ${numDone} were answered`;
}

mkdirSync(folder, { recursive: true });
const serving = await startServer();
const rows = [];
try {
  for (const client of CLIENTS) {
    if (values.only !== undefined && client.name !== values.only) continue;
    const row = { client: client.name, version: "", result: "FAIL", reason: "" };
    try {
      client.install();
      row.version = client.version();
      const { isPassed, reason } = run(client.command(serving), serving);
      const failures = isPassed ? failuresIn(client.name) : reason;
      row.result = failures === undefined ? "pass" : "FAIL";
      row.reason = failures ?? "";
    } catch (thrown) {
      row.reason = thrown.message;
    }
    process.stdout.write(
      `${row.client.padEnd(16)}${row.result}  ${[row.version, row.reason].filter(Boolean).join(": ")}\n`,
    );
    rows.push(row);
  }
} finally {
  serving.server.kill();
}
process.exitCode = rows.every(({ result }) => result === "pass") ? 0 : 1;
