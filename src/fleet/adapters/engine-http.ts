/** Short requests from the fleet to an engine: health, metrics, sleep. Client requests go through the proxy instead. */
import { request } from "undici";
import { MillraceError } from "../../core/errors.js";
import type { UpstreamTarget } from "../upstream/upstream.js";

/** Far above the size of any engine's metrics. A longer answer comes from another kind of server. */
const MAX_ANSWER_BYTES = 8 * 2 ** 20;

interface EngineAnswer {
  readonly status: number;
  readonly text: string;
}

/**
 * Sends a POST if there is a body, even an empty one, otherwise a GET. Rejects with the network's error if no answer
 * comes.
 */
export async function askEngine(
  target: UpstreamTarget,
  path: string,
  signal: AbortSignal,
  body?: object,
): Promise<EngineAnswer> {
  const { statusCode, body: answer } = await request(target.url + path, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      ...(target.apiKey === undefined ? {} : { authorization: `Bearer ${target.apiKey}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    // The port may soon belong to another process, so each request closes its connection.
    reset: true,
    signal,
  });
  const chunks: Buffer[] = [];
  let numBytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    numBytes += chunk.length;
    if (numBytes > MAX_ANSWER_BYTES) throw unexpected(target, path, `more than ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  return { status: statusCode, text: Buffer.concat(chunks).toString("utf8") };
}

/** @returns the body of a 200 response; rejects with instance_failed on any other status */
export async function askForText(
  target: UpstreamTarget,
  path: string,
  signal: AbortSignal,
  body?: object,
): Promise<string> {
  const { status, text } = await askEngine(target, path, signal, body);
  if (status === 200) return text;
  throw unexpected(target, path, `${status}: ${text.slice(0, 200)}`);
}

/** @returns the JSON object in the answer to a GET; its fields may have any type */
export async function askForJson(
  target: UpstreamTarget,
  path: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  const text = await askForText(target, path, signal);
  const json: unknown = JSON.parse(text);
  if (typeof json === "object" && json !== null) return json as Readonly<Record<string, unknown>>;
  throw unexpected(target, path, text.slice(0, 200));
}

/**
 * @returns the `max_model_len` in the engine's list of models, as vLLM reports it; in a list of one model, the name
 *   does
 * not matter
 */
export async function listedModelLen(
  target: UpstreamTarget,
  name: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  const { data } = await askForJson(target, "/v1/models", signal);
  if (!Array.isArray(data)) return undefined;
  const models = data as readonly ({ readonly id?: unknown; readonly max_model_len?: unknown } | null)[];
  const model = models.length === 1 ? models[0] : models.find((each) => each?.id === name);
  return countOrNothing(model?.max_model_len);
}

/** A proxy before the engine may never answer this path, and the engine's other figures must not wait for that. */
const TEMPLATE_TIMEOUT_MS = 2000;

/**
 * @returns the tokens of a conversation without text; undefined if the engine does not answer in time, or serves no
 * conversations
 */
export async function askTemplateTokens(target: UpstreamTarget, ended: AbortSignal): Promise<number | undefined> {
  const signal = AbortSignal.any([ended, AbortSignal.timeout(TEMPLATE_TIMEOUT_MS)]);
  const body = { model: target.modelName, messages: [{ role: "user", content: "" }] };
  try {
    const { count } = JSON.parse(await askForText(target, "/tokenize", signal, body)) as { readonly count?: unknown };
    return countOrNothing(count);
  } catch {
    return undefined;
  }
}

/**
 * @returns undefined unless the value is a positive whole number. Routing divides prompts into blocks of the size that
 * an engine reports.
 */
export function countOrNothing(value: unknown): number | undefined {
  const count = typeof value === "string" && value !== "" ? Number(value) : value;
  return Number.isSafeInteger(count) && (count as number) > 0 ? (count as number) : undefined;
}

function unexpected({ url }: UpstreamTarget, path: string, got: string): MillraceError {
  return new MillraceError("instance_failed", `expected 200 from ${url}${path}, got ${got}`, {
    hint: "See the instance's log.",
  });
}
