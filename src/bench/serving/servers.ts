/** Servers under measurement: started on loopback for one run, asked for completions of token ids, and stopped. */
import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import { packageRoot } from "../../core/package-root.js";

/** What a scenario needs of a server. */
export interface ServerShape {
  /** Requests at once. */
  readonly seats: number;
  /** Longest request. */
  readonly maxModelLen: number;
  /** Tokens that the KV memory holds. */
  readonly kvTokens: number;
}

export interface CompletionRequest {
  readonly promptIds: readonly number[];
  readonly maxTokens: number;
}

/** How a kind of server is started and spoken to. */
export interface ServerKind {
  readonly name: string;
  command(port: number, shape: ServerShape): readonly string[];
  /** Of completions. */
  readonly path: string;
  /** A streamed completion of exactly maxTokens tokens, the likeliest ones. */
  body(request: CompletionRequest): unknown;
  /** Token ids of one event of the stream. */
  idsOf(event: unknown): readonly number[];
}

export interface BenchModel {
  readonly path: string;
  readonly kvBytesPerToken: number;
  readonly numThreads: number;
}

export function millraceServer(name: string, model: BenchModel, extra: readonly string[] = []): ServerKind {
  return {
    name,
    path: "/v1/completions",
    command: (port, { seats, maxModelLen, kvTokens }) => [
      ...[process.execPath, join(packageRoot(), "bin/millrace.js"), "engine", "--model", model.path],
      ...["--port", String(port), "--threads", String(model.numThreads), "--max-num-seqs", String(seats)],
      ...["--max-model-len", String(maxModelLen)],
      ...["--kv-cache-memory-bytes", String(kvTokens * model.kvBytesPerToken), ...extra],
    ],
    body: ({ promptIds, maxTokens }) => ({
      ...{ prompt: promptIds, max_tokens: maxTokens, temperature: 0, ignore_eos: true, stream: true },
      ...{ logprobs: 0, return_tokens_as_token_ids: true },
    }),
    idsOf: (event) => {
      const { choices } = event as {
        readonly choices?: readonly { readonly logprobs?: { readonly tokens?: string[] } }[];
      };
      return (choices?.[0]?.logprobs?.tokens ?? []).map((token) => Number(token.slice("token_id:".length)));
    },
  };
}

/** llama.cpp's server as it serves many clients best: one KV memory for all slots, and its prompt cache. */
export function llamaServer(binary: string, model: BenchModel, extra: readonly string[] = []): ServerKind {
  return {
    name: "llama-server",
    path: "/completion",
    command: (port, { seats, kvTokens }) => [
      ...[binary, "-m", model.path, "--port", String(port), "-t", String(model.numThreads), "-np", String(seats)],
      ...["-c", String(kvTokens), "--kv-unified", "-fa", "on", "--no-webui", ...extra],
    ],
    body: ({ promptIds, maxTokens }) => ({
      ...{ prompt: promptIds, n_predict: maxTokens, temperature: 0, top_k: 1, ignore_eos: true, stream: true },
      ...{ cache_prompt: true, return_tokens: true },
    }),
    idsOf: (event) => (event as { readonly tokens?: readonly number[] }).tokens ?? [],
  };
}

export interface RunningServer {
  readonly kind: ServerKind;
  readonly url: string;
  stop(): Promise<void>;
}

const START_SECONDS = 120;

/** Resolves when it answers /health; rejects with peer_failed and the end of its output when it does not. */
export async function startServer(kind: ServerKind, shape: ServerShape): Promise<RunningServer> {
  const port = await freePort();
  const [command, ...args] = kind.command(port, shape);
  const child = spawn(command!, args, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-4000);
    });
  }
  child.on("error", (error) => {
    output += error.message;
  });
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; tries < START_SECONDS * 20; tries++) {
    if (child.exitCode !== null || child.pid === undefined) break;
    if (await isHealthy(url)) return { kind, url, stop: () => stop(child) };
    await sleep(50);
  }
  await stop(child);
  throw new MillraceError("peer_failed", `expected ${kind.name} to answer /health, got:\n${output}`);
}

async function isHealthy(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/health`)).ok;
  } catch {
    return false;
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
