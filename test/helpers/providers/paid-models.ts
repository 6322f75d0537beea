/** Models of paid APIs, requests to them and what must not be said of their keys. */
import { expect } from "vitest";
import { type Gateway, startGateway } from "./gateway.js";
import type { Reply } from "./provider-server.js";

export const KEY = "sk-test-0123456789abcdef";
export const OTHER_KEY = "sk-test-fedcba9876543210";
export const SECRET = "wJalrXUtnFEMI/K7MDENG";

const closing: AsyncDisposable[] = [];
/** To be called after each test. */
export async function closeAll(): Promise<void> {
  for (const each of closing.splice(0).reverse()) await each[Symbol.asyncDispose]();
}

export async function kept<T extends AsyncDisposable>(starting: Promise<T>): Promise<T> {
  const started = await starting;
  closing.push(started);
  return started;
}

export const gatewayOf = (models: readonly object[], more: object = {}): Promise<Gateway> =>
  kept(startGateway({ models, ...more }));
export const openaiModel = (url: string, keys: readonly string[] = [KEY], more: object = {}) => ({
  name: "m",
  engine: "openai",
  attach: keys.map((key) => ({ url: `${url}/v1`, "api-key": key })),
  ...more,
});
export const anthropicModel = (url: string, keys: readonly string[] = [KEY], more: object = {}) => ({
  name: "m",
  engine: "anthropic",
  attach: keys.map((key) => ({ url, "api-key": key })),
  ...more,
});

export const chat = (more: object = {}) => ({ model: "m", messages: [{ role: "user", content: "hello" }], ...more });
export const messages = (more: object = {}) => ({ ...chat({ max_tokens: 50 }), ...more });
export const CHAT = "/v1/chat/completions";
export const MESSAGES = "/v1/messages";

/** Fails if a key, or a part that would do, is in what the gateway said or logged. */
export function expectNoKeys(gateway: Gateway, ...said: readonly string[]): void {
  for (const text of [...gateway.log, ...said]) {
    for (const key of [KEY, OTHER_KEY, SECRET]) {
      expect(text).not.toContain(key);
      expect(text).not.toContain(key.slice(0, 8));
    }
  }
}

export const sse = (...events: readonly object[]): string =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
export const streamOf = (body: string | readonly (string | Buffer)[], type = "text/event-stream"): Reply => ({
  headers: { "content-type": type },
  body: typeof body === "string" ? [body] : body,
});
export const delta = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }],
});
