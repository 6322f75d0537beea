/** The operators' view of all tenants' batches: a list without clients' content, and cancellation. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Hono } from "hono";
import { afterEach, expect, test } from "vitest";
import {
  type BatchServiceTest,
  batchClient,
  batchLine,
  IDLE,
  startBatchService,
} from "../../../test/helpers/batch-service.js";
import type { Json } from "../../../test/helpers/json.js";
import { toMillraceError } from "../../core/errors.js";

let service: BatchServiceTest;
afterEach(() => service[Symbol.asyncDispose]());
const { call, ended, start } = batchClient(() => service);

const asAnn = { "x-tenant": "ann" };
const authorize = (headers: Readonly<Record<string, unknown>>) => ({ tenant: String(headers["x-tenant"] ?? "t") });

async function ask(method: string, path: string) {
  const app = new Hono();
  app.onError((thrown, c) => c.json({ code: toMillraceError(thrown).code }, 400));
  app.route("/admin", service.service.adminApp());
  const answer = await app.request(`/admin/${path}`, { method });
  return (await answer.json()) as Json;
}

test("a look at a gateway without batches makes no folder", async () => {
  service = await startBatchService();
  expect(await ask("GET", "batches")).toMatchObject({ object: "list", data: [], has_more: false });
  expect((await ask("POST", "batches/batch_1/cancel")).code).toBe("not_found");
  expect(existsSync(join(service.folder, "batches"))).toBe(false);
});

test("batches of all tenants are listed by pages, with how far they are and nothing that clients wrote", async () => {
  service = await startBatchService({ authorize });
  const first = await start([batchLine("a"), batchLine("b")], asAnn);
  await ended(first, asAnn);
  const second = await start(["no JSON: a secret"]);
  await ended(second);
  const page = await ask("GET", "batches?limit=1");
  expect(page).toMatchObject({ has_more: true, last_id: second });
  expect(page.data).toEqual([
    expect.objectContaining({ id: second, tenant: "t", status: "failed", error_codes: ["invalid_json_line"] }),
  ]);
  const { data } = (await ask("GET", `batches?after=${second}`)) as { data: Json[] };
  expect(data).toEqual([
    expect.objectContaining({
      id: first,
      tenant: "ann",
      api: "openai",
      models: ["m"],
      request_counts: { total: 2, completed: 2, failed: 0 },
    }),
  ]);
  expect(JSON.stringify([page, data])).not.toMatch(/secret|metadata|"errors"/);
  expect((await ask("GET", "batches?limit=0")).code).toBe("invalid_parameter");
});

test("any tenant's batch is cancelled; one that is over is not", async () => {
  // No line begins, since no instance is ready.
  service = await startBatchService({ authorize, load: () => ({ ...IDLE, numReady: 0 }) });
  const id = await start([batchLine("a")], asAnn);
  expect((await ask("POST", `batches/${id}/cancel`)).status).toBe("cancelling");
  expect((await ended(id, asAnn)).status).toBe("cancelled");
  expect((await ask("POST", `batches/${id}/cancel`)).code).toBe("invalid_request");
  expect((await call("GET", `/v1/batches/${id}`)).status).toBe(404);
});
