/** Calls of a provider's batch endpoint, with bounds on its answers, and without its key in any message. */
import type { Readable } from "node:stream";
import { type Dispatcher, request } from "undici";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { type JsonObject, objectOf } from "../../core/json-body.js";
import { type Provider, providerKey } from "../dialects/provider.js";
import { readProviderError } from "../dialects/provider-error.js";
import { rateLimitsOf } from "../dialects/wire/rate-limits.js";
import { Redactor } from "../dialects/wire/redact.js";

/** The provider has answered, and has refused the call. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfterMs: number | undefined,
  ) {
    super(message);
  }

  /** Whether the same call may succeed later. */
  get isForNow(): boolean {
    return FOR_NOW.includes(this.status) || this.status >= 500;
  }

  /** Whether the call surely had no effect; a redirect may follow a call that had one. */
  get isCertain(): boolean {
    return this.status >= 400 && this.status !== 408 && this.status !== 409 && this.status < 500;
  }
}

/** Statuses that may pass: the operator replaces a refused key, or pays; the others are temporary by definition. */
const FOR_NOW = [401, 402, 403, 407, 408, 409, 429];

interface Call {
  readonly method: "GET" | "POST" | "DELETE";
  /** Path after the API's own, such as /batches. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | Readable;
  readonly signal: AbortSignal;
}

interface BatchList extends Pick<Call, "path" | "headers" | "signal"> {
  /** The parameter that names the last batch of the page before. */
  readonly cursor: string;
  /** Whether a batch, and so every later one in the list, is too old. */
  readonly isOld: (batch: JsonObject) => boolean;
}

/** New batches push the wanted one down the list. */
const MAX_PAGES = 100;
/** Lists of a hundred batches are far smaller. */
const MAX_JSON_BYTES = 4 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;
const HEAD_MS = 10 * 60_000;
const IDLE_MS = 60_000;

/** Ids that a provider gives, which become parts of paths. */
const ID = /^[\w-]{1,200}$/;

export class ProviderHttp {
  readonly name: string;
  readonly #redactor: Redactor;

  constructor(
    private readonly provider: Provider,
    private readonly url: string,
  ) {
    this.name = provider.engine;
    this.#redactor = new Redactor([provider.apiKey]);
  }

  /** A text of the provider's, fit for logs and clients. */
  shown(text: unknown): string {
    return this.#redactor.text(String(text).slice(0, 500));
  }

  /** Throws Refused, and other errors if no whole answer came: the call may then have had its effect. */
  async json(call: Call): Promise<JsonObject> {
    const { body } = await this.#call(call);
    const bytes = await collected(body, MAX_JSON_BYTES);
    if (bytes.length > MAX_JSON_BYTES) throw this.unexpected(`more than ${MAX_JSON_BYTES} bytes`);
    try {
      return objectOf(bytes.toString("utf8"), bytes.length);
    } catch {
      throw this.unexpected("something that is no JSON object");
    }
  }

  /** The pages of a list of batches, the newest first, up to a page that ends with an old batch. */
  async *pages({ path, headers = {}, cursor, isOld, signal }: BatchList): AsyncGenerator<readonly JsonObject[]> {
    let after = "";
    for (let page = 0; page < MAX_PAGES; page++) {
      const list = await this.json({ method: "GET", path: `${path}?limit=100${after}`, headers, signal });
      const batches = Array.isArray(list.data) ? list.data.filter(isPlainObject) : [];
      yield batches;
      const last = batches.at(-1);
      if (list.has_more !== true || last === undefined || isOld(last)) return;
      after = `&${cursor}=${this.idOf(last.id)}`;
    }
  }

  async *bytes(call: Call): AsyncGenerator<Buffer> {
    const { body } = await this.#call(call);
    for await (const chunk of body) yield chunk as Buffer;
  }

  /** Throws if the text cannot be a part of a path. */
  idOf(value: unknown): string {
    if (typeof value === "string" && ID.test(value)) return value;
    throw this.unexpected("one without an id");
  }

  unexpected(got: string): MillraceError {
    return new MillraceError("upstream_failed", `expected an answer of ${this.name}'s batch API, got ${got}`);
  }

  async #call({ method, path, headers = {}, body, signal }: Call): Promise<Dispatcher.ResponseData> {
    const answer = await request(`${this.url}${this.provider.basePath}${path}`, {
      method,
      headers: {
        "user-agent": "millrace",
        "accept-encoding": "identity",
        ...headers,
        ...providerKey(this.provider),
      },
      body: body ?? null,
      signal,
      headersTimeout: HEAD_MS,
      bodyTimeout: IDLE_MS,
    });
    const { statusCode: status, headers: answered } = answer;
    // A redirect is not followed: the next host must not get the key.
    if (status >= 200 && status < 300) return answer;
    const text = await collected(answer.body, MAX_ERROR_BYTES);
    const error = readProviderError(this.name, status, answered, text.subarray(0, MAX_ERROR_BYTES), this.#redactor);
    throw new Refused(status, error.message, rateLimitsOf(answered, Date.now()).retryAfterMs);
  }
}

/** The body, cut a little after `most` bytes. */
async function collected(body: Dispatcher.ResponseData["body"], most: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let numBytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk as Buffer);
    numBytes += (chunk as Buffer).length;
    if (numBytes > most) break;
  }
  return Buffer.concat(chunks);
}
