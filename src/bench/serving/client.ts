/** One streamed completion, with the time of every token. */
import { Agent, request as httpRequest } from "node:http";
import { MillraceError } from "../../core/errors.js";
import type { CompletionRequest, RunningServer } from "./servers.js";

export interface CompletionRecord {
  readonly startMs: number;
  /** Of each token; those of one event share their time. */
  readonly tokenAtMs: readonly number[];
  readonly ids: readonly number[];
}

const agent = new Agent({ keepAlive: true, maxSockets: 1024 });

/** Rejects with peer_failed when the answer is not the tokens that were asked for. */
export function complete(server: RunningServer, request: CompletionRequest): Promise<CompletionRecord> {
  const { kind, url } = server;
  const body = JSON.stringify(kind.body(request));
  const startMs = performance.now();
  const tokenAtMs: number[] = [];
  const ids: number[] = [];
  return new Promise((resolve, reject) => {
    const fail = (got: string) =>
      reject(new MillraceError("peer_failed", `expected ${request.maxTokens} tokens of ${kind.name}, got ${got}`));
    const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
    const call = httpRequest(`${url}${kind.path}`, { method: "POST", agent, headers }, (response) => {
      let rest = "";
      response.setEncoding("utf8");
      response.on("data", (text: string) => {
        const nowMs = performance.now();
        const lines = (rest + text).split("\n");
        rest = lines.pop()!;
        for (const line of lines) {
          if (!line.startsWith("data: {")) continue;
          for (const id of kind.idsOf(JSON.parse(line.slice("data: ".length)))) {
            ids.push(id);
            tokenAtMs.push(nowMs);
          }
        }
      });
      response.on("end", () => {
        if (response.statusCode !== 200) fail(`status ${response.statusCode}: ${rest.slice(0, 300)}`);
        else if (ids.length < request.maxTokens) fail(`${ids.length}`);
        else resolve({ startMs, tokenAtMs, ids });
      });
      response.on("error", (error) => fail(error.message));
    });
    call.on("error", (error) => fail(error.message));
    call.end(body);
  });
}
