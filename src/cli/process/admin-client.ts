/** Calls the administrator's API of a running gateway. */
import { rename, writeFile } from "node:fs/promises";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { errorInBody } from "../../core/error-body.js";
import { MillraceError } from "../../core/errors.js";
import { noAnswer } from "../../core/no-answer.js";
import { optionError } from "../../core/option-error.js";
import type { Json } from "../output/format.js";

export interface AdminFlags {
  readonly url: string;
  readonly adminKey?: string;
  readonly json?: boolean;
}

const KEY_HINT = "set MILLRACE_ADMIN_KEY, or --admin-key, to the admin-key or an operator's key of the gateway's file";
const TIMEOUT_MS = 30_000;
const MAX_PAGES = 10_000;

export class AdminClient {
  readonly #base: string;
  readonly #key: string;

  constructor({ url, adminKey }: AdminFlags) {
    if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw optionError("--url", "an http URL", url);
    if (adminKey === undefined || adminKey === "") {
      throw new MillraceError("invalid_option", "expected the administrator's key, got none", {
        hint: KEY_HINT,
      });
    }
    this.#base = url.replace(/\/+$/, "");
    this.#key = adminKey;
  }

  /** Throws the gateway's own error if it refuses. */
  async ask(method: "GET" | "POST" | "PATCH" | "DELETE", path: string, body?: object): Promise<Json> {
    const address = `${this.#base}/admin${path}`;
    const answer = await fetch(address, {
      method,
      headers: { authorization: `Bearer ${this.#key}` },
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }).catch((cause: unknown) => {
      const message = `expected a gateway at ${this.#base}, got ${noAnswer(cause)}`;
      throw new MillraceError("upstream_failed", message, { hint: "give its address with --url", cause });
    });
    const text = await answer.text();
    const value = objectIn(text);
    if (answer.ok && value !== undefined) return value;
    const hint = answer.status === 404 ? { hint: "the gateway's file needs admin-key and managed-keys: true" } : {};
    const said = `expected ${address} to answer with JSON, got ${answer.status}`;
    throw errorInBody(text, KEY_HINT) ?? new MillraceError("upstream_failed", said, hint);
  }

  /** Writes a file from the gateway while it arrives. */
  async download(path: string, file: string): Promise<void> {
    const address = `${this.#base}/admin${path}`;
    const answer = await fetch(address, { headers: { authorization: `Bearer ${this.#key}` } }).catch(
      (cause: unknown) => {
        const message = `expected a gateway at ${this.#base}, got ${noAnswer(cause)}`;
        throw new MillraceError("upstream_failed", message, { hint: "give its address with --url", cause });
      },
    );
    if (!answer.ok || answer.body === null) {
      const said = `expected a file from ${address}, got ${answer.status}`;
      throw errorInBody(await answer.text(), KEY_HINT) ?? new MillraceError("upstream_failed", said);
    }
    // The file gets its name once it is complete.
    const partial = `${file}.partial`;
    await writeFile(partial, Readable.fromWeb(answer.body as ReadableStream));
    await rename(partial, file);
  }

  /** All pages of a list. */
  async list(path: string, query: Readonly<Record<string, string | undefined>>): Promise<readonly Json[]> {
    const all: Json[] = [];
    let after: string | undefined;
    for (let i = 0; i < MAX_PAGES; i++) {
      const given = Object.entries({ ...query, after, limit: "100" }).filter(([, value]) => value !== undefined);
      const {
        data,
        has_more: hasMore,
        last_id: lastId,
      } = await this.ask("GET", `${path}?${new URLSearchParams(given as [string, string][])}`);
      for (const each of data as readonly Json[]) all.push(each);
      if (hasMore !== true || typeof lastId !== "string") break;
      after = lastId;
    }
    return all;
  }
}

function objectIn(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}
