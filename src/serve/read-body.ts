/** Reads a request's body with a byte and a time limit, and parses it as JSON. The content type is not looked at. */
import type { IncomingMessage } from "node:http";
import { MillraceError } from "../core/errors.js";
import type { AppContext, ServeLimits } from "./context.js";

const decoder = new TextDecoder("utf-8", { fatal: true });

function tooLarge(limits: ServeLimits): MillraceError {
  return new MillraceError("body_too_large", `expected a body of at most ${limits.maxBodyBytes} bytes, got more`, {
    hint: "send less at once, or raise the server's body limit",
  });
}

function readIncoming(incoming: IncomingMessage, limits: ServeLimits): Promise<Buffer> {
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
    const onEnd = () => settle(() => resolve(Buffer.concat(chunks, numBytes)));
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

async function readBytes(c: AppContext, limits: ServeLimits): Promise<Uint8Array> {
  if (c.env?.incoming !== undefined) return readIncoming(c.env.incoming, limits);
  const bytes = new Uint8Array(await c.req.raw.arrayBuffer());
  if (bytes.length > limits.maxBodyBytes) throw tooLarge(limits);
  return bytes;
}

/** No field goes deeper; beyond it JSON.parse gets slower than linear, and walks of what it made overflow the stack. */
const MAX_DEPTH = 64;

/** Whether arrays and objects nest too deeply. Text that is no JSON may pass: the parser refuses it. */
function isTooDeep(bytes: Uint8Array): boolean {
  let depth = 0;
  let isInString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString) i += byte === BACKSLASH ? 1 : 0;
    // "[" and "{", "]" and "}" differ in one bit, which nothing else in these places does.
    else if ((byte | 0x20) === OPEN_BRACE && ++depth > MAX_DEPTH) return true;
    else if ((byte | 0x20) === CLOSE_BRACE) depth--;
  }
  return false;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** @example const body = await readJsonObject(c, limits); // { model: "mill", messages: […] } */
export async function readJsonObject(c: AppContext, limits: ServeLimits): Promise<Readonly<Record<string, unknown>>> {
  const bytes = await readBytes(c, limits);
  if (isTooDeep(bytes)) {
    throw new MillraceError("invalid_json", `expected JSON nested at most ${MAX_DEPTH} deep, got more`);
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
