import { expect, test } from "vitest";
import { pathHint } from "./path-hint.js";

test.each([
  ["/v1/models/", "write it without the extra slash: /v1/models"],
  ["//v1/models", "write it without the extra slash: /v1/models"],
  ["/v1//chat//completions/", "write it without the extra slash: /v1/chat/completions"],
  ["/v1/v1/models", "the base URL ends in /v1 already"],
  ["/slots/0", "prefixes are cached for all requests; --prefix-cache-disk SIZE keeps them across restarts"],
  ["/v1/load_lora_adapter", "an adapter is merged into its model before it is served: docs/guides/distil.md"],
  ["/pooling", "vectors of texts are at /v1/embeddings, scores of pairs at /v1/score"],
  ["/v1/chat/completions/render", "/tokenize gives the tokens of a text or a chat, /apply-template the text of a chat"],
  ["/v1/audio/transcriptions", "this server reads and writes text only"],
  ["/v1/modls", undefined],
  ["/", undefined],
])("%s", (path, expected) => expect(pathHint(path)).toBe(expected));
