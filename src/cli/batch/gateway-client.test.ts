import { afterEach, expect, test } from "vitest";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { noValidKey } from "../../core/api-keys.js";
import { errorBody } from "../../core/error-body.js";
import { MillraceError } from "../../core/errors.js";
import { GatewayClient } from "./gateway-client.js";

let gateway: Awaited<ReturnType<typeof startStandIn>>;
afterEach(() => gateway.die());

const refusal = new MillraceError("storage_quota", "expected files of at most 1 GB, got more", { hint: "delete some" });

test.each([
  [
    "the gateway's own",
    errorBody(refusal, "r"),
    "storage_quota",
    "expected files of at most 1 GB, got more; delete some",
  ],
  ["of a key", errorBody(noValidKey([]), "r"), "invalid_api_key", "expected a valid API key, got none"],
  ["with a code of another program", { error: { code: "odd", message: "no" } }, "upstream_failed", "no"],
  ["without a message", { detail: "no" }, "upstream_failed", "expected an answer of /v1/batches, got status 413"],
])("a refusal: %s", async (_, body, code, message) => {
  gateway = await startStandIn(answerJson(body, 413));
  await expect(new GatewayClient({ url: gateway.url }).ask("GET", "/v1/batches")).rejects.toMatchObject({
    code,
    message,
  });
});

test("the hint about a key has the flag that the commands take, and no header", async () => {
  gateway = await startStandIn(answerJson(errorBody(noValidKey([]), "r"), 401));
  await expect(new GatewayClient({ url: gateway.url }).ask("GET", "/v1/batches")).rejects.toMatchObject({
    hint: expect.stringMatching(/MILLRACE_API_KEY, or --api-key/),
  });
});
