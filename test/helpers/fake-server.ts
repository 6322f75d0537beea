/** Puts the HTTP layer in front of a fake engine, with a log that tests can read. */

import { ANY_PAGE } from "../../src/core/cors.js";
import type { RequestLogger } from "../../src/core/request-logger.js";
import type { ChatRenderer } from "../../src/serve/http/context.js";
import { type AppOptions, DEFAULT_LIMITS } from "../../src/serve/http/context.js";
import { type RunningServer, startServer } from "../../src/serve/server.js";
import { FakeEngine, type FakeEngineOptions } from "./fake-engine.js";
import { fakeTokenizer } from "./fake-tokenizer.js";

export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export function recordingLogger(): { readonly logger: RequestLogger; readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at = (level: LogLine["level"]) => (fields: object, message: string) => {
    lines.push({ level, fields: fields as Record<string, unknown>, message });
  };
  return { logger: { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") }, lines };
}

export const chatMl: ChatRenderer = {
  render({ messages, addGenerationPrompt }) {
    const turns = messages.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|>\n`).join("");
    return turns + (addGenerationPrompt ? "<|im_start|>assistant\n" : "");
  },
};

export interface FakeApp {
  readonly engine: FakeEngine;
  readonly options: AppOptions;
  readonly lines: LogLine[];
}

export function fakeAppOptions(engineOptions: FakeEngineOptions = {}, overrides: Partial<AppOptions> = {}): FakeApp {
  const engine = new FakeEngine(engineOptions);
  const { logger, lines } = recordingLogger();
  const options: AppOptions = {
    engine,
    tokenizer: fakeTokenizer,
    chatTemplate: chatMl,
    modelNames: ["fake"],
    apiKeys: [],
    pages: ANY_PAGE,
    limits: DEFAULT_LIMITS,
    logger,
    unknownFields: "error",
    ...overrides,
  };
  return { engine, options, lines };
}

export interface FakeServer extends FakeApp {
  readonly server: RunningServer;
}

export async function startFakeServer(
  engineOptions: FakeEngineOptions = {},
  overrides: Partial<AppOptions> = {},
): Promise<FakeServer> {
  const fake = fakeAppOptions(engineOptions, overrides);
  return { ...fake, server: await startServer({ ...fake.options, host: "127.0.0.1", port: 0 }) };
}

/** Polls a condition that another process or socket brings about; fails loudly instead of hanging. */
export async function until(isTrue: () => boolean, what: string): Promise<void> {
  const deadlineMs = performance.now() + 10_000;
  while (!isTrue()) {
    if (performance.now() > deadlineMs) throw new Error(`waited 10 s for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
