/** Conversations of the app, which the gateway stores for each client: /v1/chats. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { noValidKey } from "../../core/api-keys.js";
import { readBody } from "../../core/body-reader.js";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { readIncoming } from "../../core/json-body.js";
import { listBody } from "../../core/list-body.js";
import { OPENAI } from "../../gateway/api/dialect.js";
import { assertConversationId, readUpload } from "../../gateway/conversations/conversation-form.js";
import { type ConversationRow, ConversationStore } from "../../gateway/conversations/conversation-store.js";
import { WriteTurns } from "../../gateway/conversations/write-turns.js";
import { type Caller, keyHolder } from "../../gateway/request.js";
import type { Database } from "../../gateway/store/database.js";
import { groupCommitOf } from "../../gateway/store/group-commit.js";
import type { FleetConfig } from "../config/schema.js";
import { logFailure, respondJson, respondWithError } from "../proxy/respond.js";

const PATH = "/v1/chats";
const BODY_TIMEOUT_MS = 30_000;
/** Room in a body for the fields around its conversation. */
const ENVELOPE_BYTES = 256;
const SWEEP_MS = 3_600_000;
const DAY_MS = 86_400_000;

interface ConversationsContext {
  /** Configuration at the start. */
  readonly config: FleetConfig;
  readonly database: () => Database.Database;
  readonly logger: Logger;
  readonly authorize: (headers: IncomingHttpHeaders) => Caller | Promise<Caller>;
  /** For tests: milliseconds since 1970. */
  readonly epochMs?: () => number;
}

interface Asked {
  readonly incoming: IncomingMessage;
  readonly owner: string;
  readonly tenant: string;
  /** Undefined: all conversations of the owner. */
  readonly id: string | undefined;
}

const shownRow = (row: ConversationRow) => ({ object: "chat", ...row });

export class ConversationsPart {
  readonly #store: ConversationStore | undefined;
  readonly #maxBodyBytes: number = 0;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #turns = new WriteTurns();
  #sweeping: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(private readonly context: ConversationsContext) {
    const { config, database, epochMs } = context;
    if (config.conversations === undefined) return;
    const { bytesEach, keepDays, ...bounds } = config.conversations;
    const opened = database();
    const allBounds = { ...bounds, keepMs: keepDays * DAY_MS };
    this.#store = new ConversationStore(opened, groupCommitOf(opened), allBounds, epochMs);
    this.#maxBodyBytes = bytesEach + ENVELOPE_BYTES;
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS).unref();
    this.#sweep();
  }

  /** Deletes the conversations of managed keys, within the transaction that ends the keys. */
  forgetKeys(keyIds: readonly string[]): void {
    for (const keyId of keyIds) this.#store?.forget(keyHolder(keyId));
  }

  /** Answers /v1/chats. @returns whether the request has such a path */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): boolean {
    const path = (incoming.url ?? "").split("?", 1)[0]!;
    if (path !== PATH && !path.startsWith(`${PATH}/`)) return false;
    outgoing.setHeader("Cache-Control", "no-store");
    const id = path === PATH ? undefined : path.slice(PATH.length + 1);
    this.#answer(incoming, id)
      .then((answer) => {
        if (answer !== undefined) respondJson(outgoing, 200, requestId, answer);
        else outgoing.writeHead(204, { "X-Request-Id": requestId }).end();
      })
      .catch((thrown: unknown) => {
        const error = toMillraceError(thrown);
        logFailure(this.context.logger, error, requestId, PATH);
        respondWithError(outgoing, error, OPENAI, requestId);
      });
    return true;
  }

  /** Call it after the last request and before the database closes. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#isClosed = true;
    await this.#sweeping;
  }

  /** @returns undefined for an answer without content */
  async #answer(incoming: IncomingMessage, id: string | undefined): Promise<object | undefined> {
    const { holder, tenant } = await this.context.authorize(incoming.headers);
    const store = this.#store;
    if (store === undefined) {
      throw new MillraceError("not_found", "expected a gateway that keeps conversations, got one that does not", {
        hint: "add conversations: {} to the gateway's file, and start it again",
      });
    }
    if (holder === undefined) {
      throw new MillraceError("forbidden", "expected a key, or a token with a subject, got a token without", {
        hint: "conversations are kept for each person, and the claim `sub` says who that is",
      });
    }
    const asked = { incoming, owner: holder, tenant, id };
    if (id === undefined) return this.#list(store, asked);
    assertConversationId(id);
    return await this.#one(store, { ...asked, id });
  }

  #list(store: ConversationStore, { incoming, owner }: Asked): object {
    if (incoming.method !== "GET") throw wrongMethod("GET", PATH, incoming);
    return listBody(store.list(owner).map(shownRow));
  }

  async #one(
    store: ConversationStore,
    { incoming, owner, tenant, id }: Asked & { readonly id: string },
  ): Promise<object | undefined> {
    switch (incoming.method) {
      case "GET": {
        const { row, conversation } = store.read(owner, id);
        return { ...shownRow(row), conversation };
      }
      case "PUT": {
        const { row, removed } = await this.#turns.run(owner, async () => {
          const limits = { maxBodyBytes: this.#maxBodyBytes, bodyTimeoutMs: BODY_TIMEOUT_MS };
          const bytes = await readIncoming(incoming, limits);
          const { body } = await readBody(bytes, { tenant, onWait: () => {} });
          const { revision, conversation } = readUpload(body);
          // The key may have been revoked while the body arrived; its conversations are then deleted.
          const { holder } = await this.context.authorize(incoming.headers);
          if (holder !== owner) throw noValidKey([]);
          return await store.write({ holder: owner, tenant }, id, revision, conversation);
        });
        return { ...shownRow(row), removed };
      }
      case "DELETE":
        await store.remove(owner, id, revisionIn(incoming));
        return undefined;
      default:
        throw wrongMethod("GET, PUT or DELETE", `${PATH}/{id}`, incoming);
    }
  }

  #sweep(): void {
    this.#sweeping = this.#sweepAll().catch((err: unknown) => {
      this.context.logger.error({ err }, "deleting old conversations failed");
    });
  }

  async #sweepAll(): Promise<void> {
    while (!this.#isClosed && (await this.#store?.sweep()) === true);
  }
}

function wrongMethod(expected: string, path: string, { method }: IncomingMessage): MillraceError {
  return new MillraceError("method_not_allowed", `expected ${expected} of ${path}, got ${method}`);
}

function revisionIn({ url }: IncomingMessage): number | undefined {
  const text = new URL(url ?? "", "http://localhost").searchParams.get("revision");
  if (text === null) return undefined;
  const revision = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(revision)) return revision;
  throw new MillraceError("invalid_parameter", `expected a revision, got ${JSON.stringify(text.slice(0, 80))}`, {
    param: "revision",
  });
}
