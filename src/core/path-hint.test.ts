import { expect, test } from "vitest";
import { pathHint } from "./path-hint.js";

test.each([
  ["/v1/models/", "write it without the extra slash: /v1/models"],
  ["//v1/models", "write it without the extra slash: /v1/models"],
  ["/v1//chat//completions/", "write it without the extra slash: /v1/chat/completions"],
  ["/v1/v1/models", "the base URL ends in /v1 already"],
  ["/v1/modls", undefined],
  ["/", undefined],
])("%s", (path, expected) => expect(pathHint(path)).toBe(expected));
