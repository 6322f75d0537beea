/** Short questions to an engine: health, metrics, sleep. Requests of clients go another way, through the proxy. */
import { request } from "undici";
import { MillraceError } from "../../core/errors.js";
import type { UpstreamTarget } from "../upstream/upstream.js";

/** More than any engine's metrics; what sends more is no engine. */
const MAX_ANSWER_BYTES = 8 * 2 ** 20;

interface EngineAnswer {
  readonly status: number;
  readonly text: string;
}

/** Rejects where nobody answers, with the network's error. A body makes it a POST, and so does an empty object. */
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
    // Processes come and go on ports that others take over: no connection outlives its question.
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

/** @returns the text of a 200; rejects with instance_failed on any other status */
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

/** The JSON object that a GET answers, as an object of unknown fields. */
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

export function numberOrNothing(value: unknown): number | undefined {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

function unexpected({ url }: UpstreamTarget, path: string, got: string): MillraceError {
  return new MillraceError("instance_failed", `expected 200 from ${url}${path}, got ${got}`, {
    hint: "The instance's log says more.",
  });
}
