/** A whole gateway in this process, from the text of its configuration. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { pino } from "pino";
import { stringify } from "yaml";
import { parseConfig } from "../../../src/fleet/config/read-config.js";
import { Fleet } from "../../../src/fleet/fleet.js";

export interface Gateway extends AsyncDisposable {
  readonly url: string;
  readonly fleet: Fleet;
  /** Everything that was logged. */
  readonly log: string[];
  readonly openai: OpenAI;
  readonly anthropic: Anthropic;
  post(path: string, body: object, headers?: Readonly<Record<string, string>>): Promise<Response>;
}

export async function startGateway(config: object): Promise<Gateway> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-gateway-"));
  const log: string[] = [];
  const logger = pino({ level: "trace" }, { write: (line: string) => log.push(line) });
  const text = stringify({ port: 0, "data-folder": join(folder, "data"), ...config });
  const fleet = await Fleet.start({
    config: parseConfig(text, "millrace.yaml", process.env),
    machine: { cores: [], splits: new Map(), millraceSeats: 4 },
    logger,
    logFolder: join(folder, "logs"),
  });
  await fleet.whenStarted();
  const { url } = fleet;
  return {
    url,
    fleet,
    log,
    openai: new OpenAI({ apiKey: "client-key", baseURL: `${url}/v1`, maxRetries: 0 }),
    anthropic: new Anthropic({ apiKey: "client-key", baseURL: url, maxRetries: 0 }),
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      }),
    async [Symbol.asyncDispose]() {
      await fleet.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
