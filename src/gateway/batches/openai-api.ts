/** OpenAI's /v1/files and /v1/batches. */
import type { Hono } from "hono";
import { OPENAI_ERRORS } from "../../core/error-body.js";
import { MillraceError } from "../../core/errors.js";
import { identityOf } from "../caller-identity.js";
import type { Batches } from "./batches.js";
import type { FileShelf } from "./file-shelf.js";
import {
  BATCH_ENDPOINTS,
  MAX_EXPIRY_SECONDS,
  MAX_METADATA_KEY_CHARS,
  MAX_METADATA_PAIRS,
  MAX_METADATA_VALUE_CHARS,
  MIN_EXPIRY_SECONDS,
} from "./limits.js";
import { batchView, fileView, listView } from "./openai-views.js";
import {
  headerKey,
  invalidParameter,
  keyOf,
  type OwnApi,
  type OwnEnv,
  ownApp,
  pageOf,
  refuseOthers,
  sendFile,
  smallBody,
} from "./own-api.js";

const CREATE_FIELDS = ["input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"];
const BATCH_PAGE = { maxLimit: 100, defaultLimit: 20, after: "after" };
const FILE_PAGE = { maxLimit: 10_000, defaultLimit: 10_000, after: "after" };

/** @example createOpenAiApp(api, shelf, batches).request("/v1/batches") */
export function createOpenAiApp(api: OwnApi, shelf: FileShelf, batches: Batches): Hono<OwnEnv> {
  const app = ownApp(api, OPENAI_ERRORS);
  addFiles(app, shelf);
  addBatches(app, api, shelf, batches);
  refuseOthers(app, ["/v1/files", "/v1/batches"]);
  return app;
}

function addFiles(app: Hono<OwnEnv>, shelf: FileShelf): void {
  app.post("/v1/files", async (c) => {
    return c.json(fileView(await shelf.upload(c.get("caller").tenant, c.env.incoming, headerKey(c))));
  });
  app.get("/v1/files", (c) => {
    const order = c.req.query("order") ?? "desc";
    if (order !== "asc" && order !== "desc") throw invalidParameter("order", "asc or desc", "another value");
    const query = { ...pageOf(c, FILE_PAGE), isAscending: order === "asc" };
    return c.json(listView(shelf.list(c.get("caller").tenant, query, c.req.query("purpose")), fileView));
  });
  app.get("/v1/files/:id", (c) => c.json(fileView(shelf.get(c.get("caller").tenant, c.req.param("id")))));
  app.get("/v1/files/:id/content", async (c) => {
    const file = shelf.get(c.get("caller").tenant, c.req.param("id"));
    return await sendFile(c, await shelf.open(file), "application/octet-stream");
  });
  app.delete("/v1/files/:id", async (c) => {
    const file = shelf.get(c.get("caller").tenant, c.req.param("id"));
    await shelf.remove(file);
    return c.json({ id: file.id, object: "file", deleted: true });
  });
}

function addBatches(app: Hono<OwnEnv>, api: OwnApi, shelf: FileShelf, batches: Batches): void {
  app.post("/v1/batches", async (c) => {
    const body = await smallBody(c, api, CREATE_FIELDS);
    const caller = c.get("caller");
    const { input_file_id: fileId, endpoint, completion_window: window } = body;
    if (typeof fileId !== "string") throw invalidParameter("input_file_id", "the id of a file", shown(fileId));
    if (typeof endpoint !== "string" || !BATCH_ENDPOINTS.includes(endpoint)) {
      throw invalidParameter("endpoint", `one of ${BATCH_ENDPOINTS.join(", ")}`, shown(endpoint));
    }
    if (window !== "24h") throw invalidParameter("completion_window", '"24h"', shown(window));
    const metadata = metadataOf(body.metadata);
    const outputExpiresAfter = expiryOf(body.output_expires_after);
    const key = keyOf(c, "batches", JSON.stringify([fileId, endpoint, metadata, outputExpiresAfter]));
    const before = batches.before(key);
    if (before !== undefined) return c.json(batchView(before));
    const file = shelf.get(caller.tenant, fileId);
    if (file.purpose !== "batch") {
      throw invalidParameter("input_file_id", "a file of purpose batch", `one of purpose ${file.purpose}`);
    }
    const common = { kind: "openai", owner: identityOf(caller), endpoint, inputFileId: fileId, headers: {} } as const;
    return c.json(batchView(await batches.create({ ...common, metadata, outputExpiresAfter }, key)));
  });
  app.get("/v1/batches", (c) => {
    return c.json(listView(batches.list(c.get("caller").tenant, "openai", pageOf(c, BATCH_PAGE)), batchView));
  });
  app.get("/v1/batches/:id", (c) => {
    return c.json(batchView(batches.get(c.get("caller").tenant, "openai", c.req.param("id"))));
  });
  app.post("/v1/batches/:id/cancel", (c) => {
    return c.json(batchView(batches.cancel(c.get("caller").tenant, "openai", c.req.param("id"))));
  });
}

function metadataOf(value: unknown): Readonly<Record<string, string>> | undefined {
  if (value === undefined || value === null) return undefined;
  const limits = `at most ${MAX_METADATA_PAIRS} pairs of texts, keys of at most ${MAX_METADATA_KEY_CHARS} and values of at most ${MAX_METADATA_VALUE_CHARS} characters`;
  if (typeof value !== "object" || Array.isArray(value)) throw invalidParameter("metadata", limits, shown(value));
  const pairs = Object.entries(value);
  const isWell = ([key, text]: readonly [string, unknown]): boolean =>
    key.length <= MAX_METADATA_KEY_CHARS && typeof text === "string" && text.length <= MAX_METADATA_VALUE_CHARS;
  if (pairs.length > MAX_METADATA_PAIRS || !pairs.every(isWell)) {
    throw invalidParameter("metadata", limits, "something else");
  }
  return Object.fromEntries(pairs) as Record<string, string>;
}

function expiryOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  const { anchor, seconds, ...others } = value as Readonly<Record<string, unknown>>;
  const isWell = anchor === "created_at" && Number.isSafeInteger(seconds) && Object.keys(others).length === 0;
  if (isWell && Number(seconds) >= MIN_EXPIRY_SECONDS && Number(seconds) <= MAX_EXPIRY_SECONDS) return Number(seconds);
  const expected = `{"anchor":"created_at","seconds":n} with n in [${MIN_EXPIRY_SECONDS}, ${MAX_EXPIRY_SECONDS}]`;
  throw new MillraceError("invalid_parameter", `expected output_expires_after to be ${expected}, got something else`, {
    param: "output_expires_after",
  });
}

function shown(value: unknown): string {
  if (value === undefined) return "none";
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : "something else";
}
