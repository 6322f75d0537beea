/** Calls a gateway's API of files and batches. */

import { once } from "node:events";
import { openAsBlob } from "node:fs";
import { writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { errorInBody } from "../../core/error-body.js";
import { MillraceError } from "../../core/errors.js";
import { passTo } from "../../core/new-file.js";
import { noAnswer } from "../../core/no-answer.js";
import type { Json } from "../output/format.js";
import { baseOf } from "./senders.js";

export interface GatewayFlags {
  readonly url: string;
  readonly apiKey?: string;
  readonly json?: boolean;
}

const KEY_HINT = "set MILLRACE_API_KEY, or --api-key, to an API key of the gateway";

export class GatewayClient {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ url, apiKey }: GatewayFlags) {
    this.#base = baseOf(url);
    this.#headers = apiKey === undefined || apiKey === "" ? {} : { authorization: `Bearer ${apiKey}` };
  }

  /** Throws the gateway's own error if it refuses. */
  async ask(method: "GET" | "POST", path: string, body?: object | FormData): Promise<Json> {
    const answer = await this.#fetch(method, path, body);
    const value = (await answer.json().catch(() => undefined)) as Json | undefined;
    if (value !== undefined && typeof value === "object") return value;
    throw new MillraceError("upstream_failed", `expected JSON from ${this.#base}${path}, got something else`);
  }

  /** Uploads a file for a batch, and reads it while sending. Throws file_unreadable for a file without requests. */
  async upload(path: string): Promise<Json> {
    const { assertRequests } = await import("./run-file.js");
    await assertRequests(path);
    const form = new FormData();
    form.set("purpose", "batch");
    form.set("file", await openAsBlob(path), basename(path));
    return await this.ask("POST", "/v1/files", form);
  }

  /** Writes the content of one of the gateway's files to the disk. */
  async download(fileId: string, path: string): Promise<void> {
    const answer = await this.#fetch("GET", `/v1/files/${encodeURIComponent(fileId)}/content`);
    if (!passTo(path, "")) await writeFile(path, answer.body ?? "");
    else {
      for await (const chunk of answer.body ?? []) {
        passTo(path, Buffer.from(chunk));
        // A slow reader of the output slows the download.
        if (process.stdout.writableNeedDrain) await once(process.stdout, "drain");
      }
    }
  }

  async #fetch(method: string, path: string, body?: object | FormData): Promise<Response> {
    const sent = body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) };
    const answer = await fetch(`${this.#base}${path}`, { method, headers: this.#headers, ...sent }).catch((cause) => {
      const message = `expected a gateway at ${this.#base}, got ${noAnswer(cause)}`;
      throw new MillraceError("upstream_failed", message, { hint: "give its address with --url", cause });
    });
    if (answer.ok) return answer;
    const said = `expected an answer of ${path}, got status ${answer.status}`;
    throw errorInBody(await answer.text(), KEY_HINT) ?? new MillraceError("upstream_failed", said);
  }
}
