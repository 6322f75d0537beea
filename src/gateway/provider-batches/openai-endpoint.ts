/** OpenAI's batches, and those of compatible hosts: a file of lines, and a batch that names the file. */
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
import type { ProviderHttp } from "./provider-http.js";

const JSON_BODY = { "content-type": "application/json" };
/** The account's limit of tokens in batches is reached. */
const FULL = "token_limit_exceeded";
const OVER = ["completed", "expired", "cancelled"];

export class OpenAiEndpoint implements BatchEndpoint {
  readonly name: string;
  readonly numLists = 2;

  constructor(private readonly http: ProviderHttp) {
    this.name = http.name;
  }

  lineOf(id: string, path: string, body: Buffer): Buffer {
    const head = JSON.stringify({ custom_id: id, method: "POST", url: path });
    return Buffer.concat([Buffer.from(`${head.slice(0, -1)},"body":`), body, Buffer.from("}")]);
  }

  async upload({ mark, lines }: SentFile, signal: AbortSignal): Promise<string> {
    const boundary = `millrace-${mark}`;
    const field = (name: string, more = "") =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n`;
    const head = Buffer.from(
      `${field("purpose")}\r\nbatch\r\n${field("file", `; filename="millrace-${mark}.jsonl"`)}Content-Type: application/jsonl\r\n\r\n`,
    );
    const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
    const { size } = await stat(lines);
    async function* form(): AsyncGenerator<Buffer> {
      yield head;
      yield* createReadStream(lines) as AsyncIterable<Buffer>;
      yield tail;
    }
    const headers = {
      "content-type": `multipart/form-data; boundary=${boundary}`,
      "content-length": String(head.length + size + tail.length),
    };
    const file = await this.http.json({ method: "POST", path: "/files", headers, body: Readable.from(form()), signal });
    return this.http.idOf(file.id);
  }

  async send({ mark, path, fileId }: SentFile, signal: AbortSignal): Promise<string> {
    const body = { input_file_id: fileId, endpoint: path, completion_window: "24h", metadata: { millrace: mark } };
    // Compatible hosts may know the key; OpenAI does not document it.
    const headers = { ...JSON_BODY, "idempotency-key": mark };
    const bytes = Buffer.from(JSON.stringify(body));
    const batch = await this.http.json({ method: "POST", path: "/batches", headers, body: bytes, signal });
    return this.http.idOf(batch.id);
  }

  /**
   * Only this gateway knows the file's id. Of the file's batches, those without room have failed; hosts that do not
   * keep metadata name the file all the same.
   */
  async find({ mark, fileId, sentMs }: SentFile, signal: AbortSignal): Promise<Found> {
    const isOld = ({ created_at: created }: JsonObject) =>
      typeof created === "number" && created * 1000 < sentMs - CLOCK_SKEW_MS;
    const isUnmarked = (each: JsonObject) => markOf(each) === undefined && each.status !== "failed";
    for await (const batches of this.http.pages({ path: "/batches", cursor: "after", isOld, signal })) {
      const own = batches.find((each) => markOf(each) === mark || (each.input_file_id === fileId && isUnmarked(each)));
      if (own !== undefined) return { kind: "found", id: this.http.idOf(own.id) };
    }
    return { kind: "none" };
  }

  async look(id: string, signal: AbortSignal): Promise<Look> {
    const batch = await this.http.json({ method: "GET", path: `/batches/${id}`, signal });
    const { status, output_file_id: output, error_file_id: error } = batch;
    if (status === "failed") return this.#failure(batch);
    if (!OVER.includes(status as string)) return { kind: "running" };
    const files = [output, error].filter((each) => each !== null && each !== undefined && each !== "");
    return { kind: "ended", results: files.map((each) => this.http.idOf(each)) };
  }

  async cancel(id: string, signal: AbortSignal): Promise<void> {
    await this.http.json({ method: "POST", path: `/batches/${id}/cancel`, headers: JSON_BODY, signal });
  }

  results(name: string, signal: AbortSignal): AsyncIterable<Buffer> {
    return this.http.bytes({ method: "GET", path: `/files/${name}/content`, signal });
  }

  async remove(name: string, signal: AbortSignal): Promise<void> {
    await this.http.json({ method: "DELETE", path: `/files/${name}`, signal });
  }

  read(line: Buffer): ResultLine {
    const members = membersOf(line);
    const memberOf = (name: string): unknown => {
      const at = members.get(name);
      return at === undefined ? undefined : parsed(line, at);
    };
    const id = memberOf("custom_id");
    if (typeof id !== "string") throw this.http.unexpected("a result without a custom_id");
    const response = members.get("response");
    const inner = response === undefined ? undefined : line.subarray(response.start, response.end);
    if (inner?.[0] === 0x7b) return { id, outcome: this.#answer(inner) };
    return { id, outcome: this.#error(memberOf("error")) };
  }

  /** The answer with its body unchanged. */
  #answer(response: Buffer): LineOutcome {
    const members = membersOf(response);
    const [status, body] = [members.get("status_code"), members.get("body")];
    const value = status === undefined ? undefined : parsed(response, status);
    if (typeof value !== "number" || body === undefined) throw this.http.unexpected("a result without a status");
    return { kind: "answer", status: value, body: response.subarray(body.start, body.end) };
  }

  #error(error: unknown): LineOutcome {
    const { code, message } = isPlainObject(error) ? error : ({} as JsonObject);
    if (code === "batch_expired") return { kind: "expired" };
    if (code === "batch_cancelled") return { kind: "cancelled" };
    return { kind: "failed", message: this.http.shown(message ?? code ?? "no reason") };
  }

  #failure({ errors }: JsonObject): Look {
    const all = isPlainObject(errors) && Array.isArray(errors.data) ? errors.data.filter(isPlainObject) : [];
    const message = this.http.shown(all[0]?.message ?? "no reason");
    return { kind: "failed", message, isForNow: all.length > 0 && all.every(({ code }) => code === FULL) };
  }
}

function markOf({ metadata }: JsonObject): unknown {
  return isPlainObject(metadata) ? metadata.millrace : undefined;
}
