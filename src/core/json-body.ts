/** Reads a request's body with a byte and a time limit, and parses it as JSON. The content type is not looked at. */
import type { IncomingMessage } from "node:http";
import { MillraceError } from "./errors.js";

export interface BodyLimits {
  readonly maxBodyBytes: number;
  /** A request's body must have arrived within this time of its headers. */
  readonly bodyTimeoutMs: number;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

export function tooLarge(limits: BodyLimits): MillraceError {
  return new MillraceError("body_too_large", `expected a body of at most ${limits.maxBodyBytes} bytes, got more`, {
    hint: "send less at once, or raise the server's body limit",
  });
}

/** The whole body, refused as soon as it is too large or too slow. */
export function readIncoming(incoming: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  if (Number(incoming.headers["content-length"] ?? 0) > limits.maxBodyBytes) return Promise.reject(tooLarge(limits));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let numBytes = 0;
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      incoming.off("data", onData).off("end", onEnd).off("close", onClose);
      finish();
    };
    const onData = (chunk: Buffer) => {
      numBytes += chunk.length;
      if (numBytes > limits.maxBodyBytes) settle(() => reject(tooLarge(limits)));
      else chunks.push(chunk);
    };
    const onEnd = () => settle(() => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, numBytes)));
    const onClose = () =>
      settle(() => reject(new MillraceError("client_closed", "expected the whole body, got a closed connection")));
    const timer = setTimeout(() => {
      const message = `expected the whole body within ${limits.bodyTimeoutMs} ms, got ${numBytes} bytes`;
      settle(() => reject(new MillraceError("request_timeout", message)));
    }, limits.bodyTimeoutMs);
    incoming.on("data", onData).on("end", onEnd).on("close", onClose);
    // A reset arrives as an error before the close; unhandled it would end the process.
    incoming.on("error", () => {});
    if (incoming.destroyed && !incoming.readableEnded) onClose();
  });
}

/** No field goes deeper; beyond it JSON.parse gets slower than linear, and walks of what it made overflow the stack. */
export const MAX_JSON_DEPTH = 64;

/** Whether arrays and objects nest too deeply. Text that is no JSON may pass: the parser refuses it. */
export function isTooDeep(bytes: Uint8Array): boolean {
  let depth = 0;
  let isInString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString) i += byte === BACKSLASH ? 1 : 0;
    // "[" and "{", "]" and "}" differ in one bit, which nothing else in these places does.
    else if ((byte | 0x20) === OPEN_BRACE && ++depth > MAX_JSON_DEPTH) return true;
    else if ((byte | 0x20) === CLOSE_BRACE) depth--;
  }
  return false;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** @example parseJsonObject(Buffer.from('{"model":"mill"}')); // { model: "mill" } */
export function parseJsonObject(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  if (isTooDeep(bytes)) {
    throw new MillraceError("invalid_json", `expected JSON nested at most ${MAX_JSON_DEPTH} deep, got more`);
  }
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(bytes));
  } catch (thrown) {
    // V8's message quotes the text around the fault: that is prompt text, so only the kind of fault is told.
    const fault = thrown instanceof SyntaxError ? "text that does not parse" : "bytes that are not UTF-8";
    throw new MillraceError("invalid_json", `expected a JSON object as body, got ${fault} (${bytes.length} bytes)`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const got = Array.isArray(value) ? "an array" : value === null ? "null" : `a ${typeof value}`;
    throw new MillraceError("invalid_json", `expected a JSON object as body, got ${got}`);
  }
  return value as Record<string, unknown>;
}
