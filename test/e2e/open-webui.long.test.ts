/**
 * Open WebUI, unchanged, before a fleet of two models: it lists them and chats through both of its doors, Ollama's API
 * and OpenAI's.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { freePort } from "../helpers/free-port.js";
import { canImport, python } from "../helpers/python.js";

const isPresent = canImport("open_webui", "pip install open-webui");

class OpenWebui implements AsyncDisposable {
  #token = "";

  private constructor(
    readonly url: string,
    private readonly end: () => Promise<void>,
  ) {}

  static async start(fleetUrl: string): Promise<OpenWebui> {
    const folder = mkdtempSync(join(tmpdir(), "open-webui-"));
    const port = await freePort();
    const env = {
      ...process.env,
      DATA_DIR: folder,
      OLLAMA_BASE_URL: fleetUrl,
      OPENAI_API_BASE_URL: `${fleetUrl}/v1`,
      OPENAI_API_KEY: "unused",
      OFFLINE_MODE: "true",
      HF_HUB_OFFLINE: "1",
      // Its own embedding model would be loaded from the hub.
      RAG_EMBEDDING_ENGINE: "openai",
      WEBUI_SECRET_KEY: "test",
    };
    const program = "from open_webui import app; app()";
    const args = ["-c", program, "serve", "--host", "127.0.0.1", "--port", String(port)];
    const child = spawn(python, args, { cwd: folder, env, stdio: ["ignore", "ignore", "pipe"] });
    let output = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-4096);
    });
    const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
    const webui = new OpenWebui(`http://127.0.0.1:${port}`, async () => {
      child.kill("SIGKILL");
      await exited;
      rmSync(folder, { recursive: true, force: true });
    });
    while ((await fetch(`${webui.url}/health`).catch(() => undefined))?.ok !== true) {
      if (child.exitCode !== null) throw new Error(`Open WebUI ended:\n${output}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    const user = { name: "a", email: "a@example.org", password: "Correct-horse-9" };
    webui.#token = (await webui.ask<{ token: string }>("/api/v1/auths/signup", user)).token;
    return webui;
  }

  async text(path: string, body?: object): Promise<string> {
    const headers = { "content-type": "application/json", authorization: `Bearer ${this.#token}` };
    const method = body === undefined ? "GET" : "POST";
    const response = await fetch(this.url + path, { method, headers, body: JSON.stringify(body) ?? null });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    return text;
  }

  async ask<T>(path: string, body?: object): Promise<T> {
    return JSON.parse(await this.text(path, body)) as T;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }
}

interface Chat {
  readonly choices: readonly { readonly message: { readonly content: string } }[];
}

test.skipIf(!isPresent)("Open WebUI [needs a Python with open-webui]", { timeout: 300_000 }, async () => {
  const model = join(repositoryRoot(), "models/mill-base.gguf");
  const models = ["mill-base", "mill-two"].map((name) => ({ name, model, options: { threads: 1 } }));
  await using fleet = await FleetProcess.start({ models });
  await using webui = await OpenWebui.start(fleet.url);

  const { data } = await webui.ask<{ data: { id: string; owned_by: string }[] }>("/api/models");
  const expected = ["mill-base openai", "mill-base:latest ollama", "mill-two openai", "mill-two:latest ollama"];
  expect(data.map(({ id, owned_by }) => `${id} ${owned_by}`).toSorted()).toEqual(expected);

  const messages = [{ role: "user", content: "What is 12 plus 7?" }];
  const answers = new Set<string>();
  for (const { id } of data) {
    const whole = await webui.ask<Chat>("/api/chat/completions", { model: id, messages, stream: false });
    answers.add(whole.choices[0]!.message.content);
    const stream = await webui.text("/api/chat/completions", { model: id, messages, stream: true });
    const events = stream.split("\n").filter((line) => line.startsWith("data: {"));
    const pieces = events.map((line) => {
      const { choices = [] } = JSON.parse(line.slice(6)) as { choices?: { delta: { content?: string } }[] };
      return choices[0]?.delta.content ?? "";
    });
    answers.add(pieces.join(""));
  }
  // One model under two names and two doors, whole and streamed.
  expect(answers.size).toBe(1);
  expect([...answers][0]).not.toBe("");

  const shown = await webui.ask<{ details: object }>("/ollama/api/show", { model: "mill-base:latest" });
  expect(shown.details).toMatchObject({ parameter_size: "6.2M" });
  const ask = { model: "mill-base:latest", messages, stream: false };
  const compatible = await webui.ask<Chat>("/ollama/v1/chat/completions", ask);
  expect(answers).toContain(compatible.choices[0]!.message.content);
  const { embeddings } = await webui.ask<{ embeddings: number[][] }>("/ollama/api/embed", {
    model: "mill-base:latest",
    input: ["a fox"],
  });
  expect(embeddings[0]).toHaveLength(256);
  expect(await webui.ask("/ollama/api/unload", { name: "mill-base:latest" })).toEqual({ status: true });
});
