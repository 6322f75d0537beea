/** Anthropic's /v1/messages/batches: the requests come with the body, and the results are one list. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { IncomingMessage } from "node:http";
import { finished } from "node:stream/promises";
import type { Hono } from "hono";
import { ANTHROPIC_ERRORS } from "../../core/error-body.js";
import { MillraceError } from "../../core/errors.js";
import { identityOf } from "../caller-identity.js";
import type { Batches } from "./batches.js";
import { checkInput, type InputLimits } from "./check-input.js";
import type { FileShelf } from "./file-shelf.js";
import type { BatchFolders } from "./folders.js";
import { MAX_MESSAGE_BATCH_BYTES, MAX_MESSAGE_BATCH_REQUESTS } from "./limits.js";
import {
  headerKey,
  keyOf,
  type OwnApi,
  type OwnContext,
  type OwnEnv,
  ownApp,
  pageOf,
  refuseOthers,
  sendFile,
} from "./own-api.js";
import type { LineTerms } from "./read-line.js";
import { type BatchRecord, isOver } from "./record.js";
import { RequestSplitter } from "./request-splitter.js";
import { toStorageError } from "./upload.js";

const ENDPOINT = "/v1/messages";
const PAGE = { maxLimit: 1000, defaultLimit: 20, after: "after_id", before: "before_id" };
/** Headers by which Anthropic's clients choose versions and features; each line repeats them. */
const KEPT_HEADERS = ["anthropic-version", "anthropic-beta"];

interface AnthropicParts {
  readonly shelf: FileShelf;
  readonly batches: Batches;
  readonly folders: BatchFolders;
  readonly modelOf: LineTerms["modelOf"];
  readonly maxLineBytes: () => number;
}

export function createAnthropicApp(api: OwnApi, parts: AnthropicParts): Hono<OwnEnv> {
  const { batches, shelf } = parts;
  const app = ownApp(api, ANTHROPIC_ERRORS);
  const get = (c: OwnContext): BatchRecord => batches.get(c.get("caller").tenant, "anthropic", c.req.param("id") ?? "");
  app.post("/v1/messages/batches", async (c) => c.json(viewOf(c, await create(c, api, parts))));
  app.get("/v1/messages/batches", (c) => {
    const { items, hasMore } = batches.list(c.get("caller").tenant, "anthropic", pageOf(c, PAGE));
    return c.json({
      data: items.map((batch) => viewOf(c, batch)),
      has_more: hasMore,
      first_id: items[0]?.id ?? null,
      last_id: items.at(-1)?.id ?? null,
    });
  });
  app.get("/v1/messages/batches/:id", (c) => c.json(viewOf(c, get(c))));
  app.post("/v1/messages/batches/:id/cancel", (c) => {
    const batch = get(c);
    // An ended batch has nothing left to cancel.
    if (isOver(batch.state) || batch.state === "finalizing") return c.json(viewOf(c, batch));
    return c.json(viewOf(c, batches.cancel(c.get("caller").tenant, "anthropic", batch.id)));
  });
  app.delete("/v1/messages/batches/:id", async (c) => {
    const { id } = get(c);
    await batches.remove(c.get("caller").tenant, "anthropic", id);
    return c.json({ id, type: "message_batch_deleted" });
  });
  app.get("/v1/messages/batches/:id/results", async (c) => {
    const batch = get(c);
    if (!isOver(batch.state)) {
      throw new MillraceError("not_found", `expected a batch that has ended, got ${batch.id}, which has not`);
    }
    const file = shelf.results(batch);
    c.header("Content-Type", "application/x-jsonl");
    return file === undefined ? c.body("", 200) : await sendFile(c, await shelf.open(file), "application/x-jsonl");
  });
  refuseOthers(app, ["/v1/messages/batches"]);
  return app;
}

async function create(c: OwnContext, api: OwnApi, parts: AnthropicParts): Promise<BatchRecord> {
  const { batches, folders, modelOf, shelf } = parts;
  const caller = c.get("caller");
  const id = `msgbatch_${randomBytes(16).toString("hex")}`;
  const limits: InputLimits = {
    maxBytes: MAX_MESSAGE_BATCH_BYTES,
    maxLines: MAX_MESSAGE_BATCH_REQUESTS,
    maxLineBytes: parts.maxLineBytes(),
  };
  batches.assertFew(caller.tenant);
  await folders.createRun(id);
  let isKept = false;
  try {
    const digest = await receiveRequests(c.env.incoming, folders.input(id), limits, api.bodyTimeoutMs(), (numBytes) =>
      shelf.assertRoom(caller.tenant, numBytes),
    );
    const key = headerKey(c) === undefined ? undefined : keyOf(c, "messages", digest);
    const before = batches.before(key);
    if (before !== undefined) return before;
    const terms = { kind: "anthropic", endpoint: ENDPOINT, caller, modelOf } as const;
    const { faults, index, models } = await checkInput(folders.input(id), terms, limits);
    const [fault] = faults;
    if (fault !== undefined) {
      const param =
        fault.line === null
          ? "requests"
          : `requests[${fault.line - 1}]${fault.param === null ? "" : `.${fault.param}`}`;
      throw new MillraceError("invalid_request", `${param}: ${fault.message}`, { param });
    }
    const headers = Object.fromEntries(
      KEPT_HEADERS.flatMap((name) => {
        const value = c.req.header(name);
        return value === undefined ? [] : [[name, value]];
      }),
    );
    const common = {
      kind: "anthropic",
      owner: identityOf(caller),
      endpoint: ENDPOINT,
      inputFileId: "",
      headers,
    } as const;
    const batch = { ...common, metadata: undefined, outputExpiresAfter: undefined };
    const record = await batches.createChecked(batch, id, { index, models }, key);
    isKept = record.id === id;
    return record;
  } finally {
    if (!isKept) await folders.removeRun(id);
  }
}

/** Writes the requests of a body to a file as it arrives, one a line. @returns a hash of the body */
async function receiveRequests(
  incoming: IncomingMessage,
  path: string,
  { maxBytes, maxLines, maxLineBytes }: InputLimits,
  idleMs: number,
  take: (numBytes: number) => void,
): Promise<Buffer> {
  const splitter = new RequestSplitter({ maxElements: maxLines, maxElementBytes: maxLineBytes });
  const hash = createHash("sha256");
  const file = createWriteStream(path, { mode: 0o600, flush: true });
  const written = finished(file);
  written.catch(() => {});
  let numBytes = 0;
  const late = (): void => {
    const message = `expected the next byte within ${idleMs} ms, got none`;
    incoming.destroy(new MillraceError("request_timeout", message));
  };
  let timer = setTimeout(late, idleMs);
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      clearTimeout(timer);
      timer = setTimeout(late, idleMs);
      numBytes += chunk.length;
      if (numBytes > maxBytes) {
        throw new MillraceError("body_too_large", `expected a body of at most ${maxBytes} bytes, got more`);
      }
      if (Math.floor(numBytes / ROOM_STEP_BYTES) > Math.floor((numBytes - chunk.length) / ROOM_STEP_BYTES))
        take(numBytes);
      hash.update(chunk);
      let isWelcome = true;
      for (const element of splitter.push(chunk)) isWelcome = file.write(Buffer.concat([element, NEWLINE]));
      if (!isWelcome) await Promise.race([once(file, "drain"), written]);
    }
    splitter.end();
    file.end();
    await written;
    return hash.digest();
  } catch (thrown) {
    file.destroy();
    if (thrown instanceof MillraceError) throw thrown;
    if (!incoming.complete)
      throw new MillraceError("client_closed", "expected the whole body, got a closed connection");
    throw toStorageError(thrown);
  } finally {
    clearTimeout(timer);
  }
}

/** A tenant's quota is checked again after this many bytes. */
const ROOM_STEP_BYTES = 4 * 1024 * 1024;
const NEWLINE = Buffer.from("\n");

function viewOf(c: OwnContext, batch: BatchRecord): object {
  const { id, state, times, counts, numLines } = batch;
  const hasEnded = isOver(state);
  const date = (seconds: number | undefined): string | null =>
    seconds === undefined ? null : new Date(seconds * 1000).toISOString();
  const { succeeded, errored, expired, cancelled: canceled } = counts;
  return {
    id,
    type: "message_batch",
    processing_status: hasEnded ? "ended" : state === "cancelling" ? "canceling" : "in_progress",
    request_counts: {
      processing: Math.max(0, numLines - succeeded - errored - expired - canceled),
      succeeded,
      errored,
      canceled,
      expired,
    },
    created_at: date(batch.createdAt),
    expires_at: date(batch.expiresAt),
    ended_at: date(hasEnded ? times[state] : undefined),
    cancel_initiated_at: date(times.cancelling),
    archived_at: null,
    results_url: hasEnded ? `${new URL(c.req.url).origin}/v1/messages/batches/${id}/results` : null,
  };
}
