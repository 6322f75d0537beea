/** The request that an instance gets. */
import { describe, expect, it } from "vitest";
import { routeOf } from "../../gateway/api/routes.js";
import { OLLAMA } from "../../gateway/ollama/endpoints.js";
import { ofEmbed } from "../../gateway/ollama/request.js";
import { messageTo } from "./message.js";

describe("the cut of long texts that Ollama's clients expect", () => {
  const path = "/v1/embeddings";
  const sentTo = (engine: string, isOllama = true) => {
    const body = ofEmbed({ input: "a" });
    const route = { ...routeOf(path), ...(isOllama ? { dialect: OLLAMA } : {}) };
    const request = { headers: {}, route, path, url: path, bytes: Buffer.from(JSON.stringify(body)), body, caller: {} };
    const lease = { upstream: { engine }, target: {} } as never;
    const sendable = { request, cacheScope: () => "", schedulesByPriority: false } as never;
    const { body: bytes } = messageTo(lease, sendable, undefined, undefined);
    return JSON.parse((bytes as Buffer).toString()) as object;
  };

  it.each(["millrace", "vllm"])("is asked of %s", (engine) => {
    expect(sentTo(engine)).toEqual({ input: "a", truncate_prompt_tokens: -1 });
  });

  it("is not asked of engines that would refuse it; other clients' bodies stay as they are", () => {
    for (const engine of ["llama-server", "ollama", "openai"]) expect(sentTo(engine)).toEqual({ input: "a" });
    expect(sentTo("ollama", false)).toEqual({ input: "a", truncate_prompt_tokens: -1 });
  });
});
