import { expect, test } from "vitest";
import { answerHeaders } from "./headers.js";

test("an answer keeps what clients read, and nothing that acts on the gateway's origin or speaks in its name", () => {
  const kept = {
    "content-type": "application/json",
    "retry-after": "1",
    "x-ratelimit-remaining-requests": "3",
    "openai-processing-ms": "5",
    "anthropic-ratelimit-tokens-limit": "9",
    "x-millrace-unenforced": "format",
  };
  const dropped = [
    "set-cookie",
    "set-login",
    "use-as-dictionary",
    "critical-ch",
    "www-authenticate",
    "location",
    "clear-site-data",
    "access-control-allow-origin",
    "transfer-encoding",
    "x-request-id",
    "x-millrace-cache",
    "x-millrace-cost",
    "idempotent-replayed",
    "some-header-of-tomorrow",
  ];
  const headers = { ...kept, ...Object.fromEntries(dropped.map((name) => [name, "1"])) };
  expect(answerHeaders(headers, false)).toEqual(kept);
});

test("a header that the connection names is dropped", () => {
  const headers = { "content-type": "application/json", connection: "x-hop", "x-hop": "1" };
  expect(answerHeaders(headers, false)).toEqual({ "content-type": "application/json" });
});
