/** An OpenAI-compatible server: sends requests to its address, with its key. */
import { Agent, type Dispatcher, request } from "undici";
import { z } from "zod";
import { errorInBody } from "../core/error-body.js";
import { MillraceError } from "../core/errors.js";
import { visible } from "../core/visible-text.js";

export interface Reply {
  readonly status: number;
  readonly text: string;
  readonly retryAfterMs: number;
}

/** Log-probabilities of a long text take about 10 MiB. */
const MAX_REPLY_BYTES = 2 ** 28;
const MOST_SAID_CHARACTERS = 300;
/** Statuses that refuse a single prompt; the server itself works. */
export const REFUSED_STATUSES: readonly number[] = [400, 413, 422];

const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string(), tasks: z.array(z.string()).nullish().catch(undefined) })).min(1),
});

export class RemoteServer {
  /** The address without a final /v1. */
  readonly root: string;
  readonly #headers: Readonly<Record<string, string>>;
  // No time limits, because a long answer's headers arrive with its end.
  readonly #dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, maxResponseSize: MAX_REPLY_BYTES });

  constructor(url: string, apiKey: string | undefined) {
    this.root = url.replace(/\/+$/, "").replace(/\/v1$/, "");
    this.#headers = {
      "content-type": "application/json",
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    };
  }

  /** @param body undefined: GET */
  open(path: string, body: object | undefined, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const method = body === undefined ? "GET" : "POST";
    const text = body === undefined ? null : JSON.stringify(body);
    const [headers, dispatcher] = [this.#headers, this.#dispatcher];
    return request(`${this.root}${path}`, { method, headers, body: text, dispatcher, signal });
  }

  async send(path: string, body: object | undefined, signal: AbortSignal): Promise<Reply> {
    const reply = await this.open(path, body, signal);
    const retryAfterMs = 1000 * (Number(reply.headers["retry-after"]) || 0);
    return { status: reply.statusCode, text: await reply.body.text(), retryAfterMs };
  }

  /** Names of the models that answer prompts. Throws endpoint_failed. */
  async models(signal: AbortSignal): Promise<readonly string[]> {
    const path = "/v1/models";
    const reply = await this.send(path, undefined, signal).catch((thrown: unknown) => {
      signal.throwIfAborted();
      throw noAnswer(`${this.root}${path}`, failureText(thrown));
    });
    if (reply.status === 429 || reply.status >= 500) throw noAnswer(`${this.root}${path}`, statusText(reply));
    const { data } = parse(modelsSchema, reply, `${this.root}/v1`);
    return data.filter(({ tasks }) => tasks == null || tasks.includes("generate")).map(({ id }) => id);
  }

  close(): Promise<void> {
    return this.#dispatcher.close();
  }
}

/** Describes the failure for people. */
export const failureText = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message || String((thrown as { code?: unknown }).code) : String(thrown);

export const statusText = (reply: Reply): string => `status ${reply.status}: ${saidIn(reply)}`;

/** The server's own message, if its answer has an error's form. Terminals show it. */
const saidIn = ({ text }: Reply): string =>
  visible((errorInBody(text)?.message ?? text).slice(0, MOST_SAID_CHARACTERS));

/** @param got such as "connect ECONNREFUSED" */
export const noAnswer = (url: string, got: string): MillraceError =>
  new MillraceError("endpoint_failed", `expected an answer from ${url}, got ${got}`, {
    hint: "check that the server runs at this address",
  });

/** Throws invalid_request for a refused prompt, and endpoint_failed. */
export function parse<T>(schema: z.ZodType<T>, reply: Reply, base: string): T {
  const { status, text } = reply;
  if (REFUSED_STATUSES.includes(status)) {
    throw new MillraceError(
      "invalid_request",
      `expected the model to accept the prompt, got ${status}: ${saidIn(reply)}`,
    );
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Refused below, together with JSON of another shape.
  }
  const parsed = schema.safeParse(value);
  if (status === 200 && parsed.success) return parsed.data;
  throw new MillraceError(
    "endpoint_failed",
    `expected an OpenAI-compatible answer from ${base}, got ${status}: ${saidIn(reply)}`,
    {
      hint: "check the address, the model's name and the API key",
    },
  );
}
