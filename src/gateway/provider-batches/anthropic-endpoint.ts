/**
 * Anthropic's batches of messages: the lines come with the request that makes the batch. It has neither metadata nor
 * idempotency keys, so a batch is recognised by its lines' ids in the results.
 */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { isPlainObject } from "../../core/is-plain-object.js";
import type { JsonObject } from "../../core/json-body.js";
import { membersOf, parsed } from "../json-members.js";
import {
  type BatchEndpoint,
  CLOCK_SKEW_MS,
  type Found,
  type LineOutcome,
  type Look,
  type ResultLine,
  type SentFile,
} from "./endpoint.js";
import { type ProviderHttp, Refused } from "./provider-http.js";
import { splitLines } from "./split-lines.js";

const HEADERS = { "anthropic-version": "2023-06-01", "content-type": "application/json" };
const BATCHES = "/v1/messages/batches";
const NEWLINE = 0x0a;
const COMMA = 0x2c;
const MAX_FIRST_LINE_BYTES = 16 * 1024 * 1024;
const COUNTS = ["processing", "succeeded", "errored", "canceled", "expired"] as const;

/** Statuses by the kind of error, since results state none. */
const STATUSES: ReadonlyMap<unknown, number> = new Map([
  ["invalid_request_error", 400],
  ["authentication_error", 401],
  ["billing_error", 402],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["request_too_large", 413],
  ["rate_limit_error", 429],
  ["timeout_error", 504],
  ["overloaded_error", 529],
]);

export class AnthropicEndpoint implements BatchEndpoint {
  readonly name: string;
  /** Only lists show that a batch was made, and a second batch costs as much as the first. */
  readonly numLists = 6;

  constructor(private readonly http: ProviderHttp) {
    this.name = http.name;
  }

  lineOf(id: string, _: string, body: Buffer): Buffer {
    const head = JSON.stringify({ custom_id: id });
    return Buffer.concat([Buffer.from(`${head.slice(0, -1)},"params":`), body, Buffer.from("}")]);
  }

  async upload(): Promise<undefined> {}

  async send({ lines, headers: own }: SentFile, signal: AbortSignal): Promise<string> {
    const [head, tail] = [Buffer.from('{"requests":['), Buffer.from("]}")];
    const { size } = await stat(lines);
    async function* requests(): AsyncGenerator<Buffer> {
      yield head;
      for await (const chunk of createReadStream(lines) as AsyncIterable<Buffer>) {
        // JSON has no raw newlines: each one here separates two lines.
        for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at)) chunk[at] = COMMA;
        yield chunk;
      }
      yield tail;
    }
    const headers = { ...HEADERS, ...own, "content-length": String(head.length + size + tail.length) };
    const body = Readable.from(requests());
    const batch = await this.http.json({ method: "POST", path: BATCHES, headers, body, signal });
    return this.http.idOf(batch.id);
  }

  async find(file: SentFile, signal: AbortSignal): Promise<Found> {
    let isUnsure = false;
    const isOld = ({ created_at: created }: JsonObject) => Date.parse(String(created)) < file.sentMs - CLOCK_SKEW_MS;
    const pages = this.http.pages({ path: BATCHES, headers: HEADERS, cursor: "after_id", isOld, signal });
    for await (const batches of pages) {
      for (const each of batches.filter((batch) => !isOld(batch) && numLinesOf(batch) === file.numLines)) {
        const id = this.http.idOf(each.id);
        if (each.processing_status !== "ended") isUnsure = true;
        else if (await this.#isOf(id, file.key, signal)) return { kind: "found", id };
      }
    }
    return { kind: isUnsure ? "unsure" : "none" };
  }

  async look(id: string, signal: AbortSignal): Promise<Look> {
    const batch = await this.http.json({ method: "GET", path: `${BATCHES}/${id}`, headers: HEADERS, signal });
    return batch.processing_status === "ended" ? { kind: "ended", results: [id] } : { kind: "running" };
  }

  async cancel(id: string, signal: AbortSignal): Promise<void> {
    await this.http.json({ method: "POST", path: `${BATCHES}/${id}/cancel`, headers: HEADERS, signal });
  }

  /** The address of the results in the batch is not followed: it could lead anywhere. */
  results(id: string, signal: AbortSignal): AsyncIterable<Buffer> {
    return this.http.bytes({ method: "GET", path: `${BATCHES}/${id}/results`, headers: HEADERS, signal });
  }

  read(line: Buffer): ResultLine {
    const members = membersOf(line);
    const [customId, result] = [members.get("custom_id"), members.get("result")];
    const id = customId === undefined ? undefined : parsed(line, customId);
    if (typeof id !== "string") throw this.http.unexpected("a result without a custom_id");
    if (result === undefined) throw this.http.unexpected("a line without a result");
    return { id, outcome: this.#outcome(line.subarray(result.start, result.end)) };
  }

  #outcome(result: Buffer): LineOutcome {
    const members = membersOf(result);
    const [type, message, error] = ["type", "message", "error"].map((name) => members.get(name));
    switch (type === undefined ? undefined : parsed(result, type)) {
      case "succeeded":
        if (message === undefined) break;
        return { kind: "answer", status: 200, body: result.subarray(message.start, message.end) };
      case "errored": {
        if (error === undefined) break;
        const value = parsed(result, error);
        const inner = isPlainObject(value) && isPlainObject(value.error) ? value.error : undefined;
        const status = STATUSES.get(inner?.type) ?? 500;
        return { kind: "answer", status, body: result.subarray(error.start, error.end) };
      }
      case "expired":
        return { kind: "expired" };
      case "canceled":
        return { kind: "cancelled" };
    }
    throw this.http.unexpected("a result of an unknown type");
  }

  async #isOf(id: string, key: string, signal: AbortSignal): Promise<boolean> {
    try {
      for await (const line of splitLines(this.results(id, signal), MAX_FIRST_LINE_BYTES)) {
        return line !== undefined && this.read(line).id.startsWith(`${key}-`);
      }
    } catch (thrown) {
      // Missing or unreadable results are another file's: this file's own are new.
      if (!(thrown instanceof Refused) || thrown.isForNow) throw thrown;
    }
    return false;
  }
}

function numLinesOf({ request_counts: counts }: JsonObject): number {
  if (!isPlainObject(counts)) return -1;
  return COUNTS.reduce((sum, name) => sum + (Number(counts[name]) || 0), 0);
}
