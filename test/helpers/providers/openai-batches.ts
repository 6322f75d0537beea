/**
 * OpenAI's files and batches. A batch takes a step with each question for it, and waits in progress while it is held.
 * Tests may change what its results say.
 */
import { z } from "zod";
import { checked, type ProviderAsked, Refusal, type Reply } from "./provider-server.js";

const create = z.strictObject({
  input_file_id: z.string(),
  endpoint: z.enum(["/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/completions", "/v1/moderations"]),
  completion_window: z.literal("24h"),
  metadata: z.record(z.string().max(64), z.string().max(512)).nullish(),
});
const line = z.strictObject({
  custom_id: z.string().min(1),
  method: z.literal("POST"),
  url: z.string(),
  body: z.looseObject({ model: z.string() }),
});
type Line = z.output<typeof line>;

interface Batch {
  readonly id: string;
  readonly object: "batch";
  readonly endpoint: string;
  readonly input_file_id: string;
  readonly completion_window: "24h";
  readonly created_at: number;
  readonly metadata: Record<string, string> | null | undefined;
  status: string;
  errors: object | null;
  output_file_id: string | null;
  error_file_id: string | null;
  request_counts: { total: number; completed: number; failed: number };
}

const OVER = ["failed", "completed", "expired", "cancelled"];

const refusal = (status: number, message: string, code: string | null = null, param: string | null = null): Reply => ({
  status,
  body: { error: { message, type: "invalid_request_error", param, code } },
});

export class OpenaiBatches {
  readonly files = new Map<string, string>();
  /** Those that were deleted, as they were. */
  readonly deleted = new Map<string, string>();
  /** How many further deletions fail. */
  numFailedDeletions = 0;
  readonly batches: Batch[] = [];
  /** Batches stay in progress. */
  isHeld = false;
  /** What happens to the answer to the next batch, which is made all the same. */
  nextLost: Reply["lost"];
  /** Nothing moves any more, not even a batch that is cancelled. */
  isStuck = false;
  /** The next batch fails for this reason. */
  nextFailure: { readonly code: string; readonly message: string } | undefined;
  /** Lines of the output and the error file, as they are to be. */
  tamper: (lines: readonly string[]) => readonly string[] = (lines) => lines;
  /** Custom ids of lines that were run, over all batches. */
  readonly ran: string[] = [];

  /** @returns undefined for other paths */
  reply(asked: ProviderAsked, answer: (body: { url: string; body: Line["body"] }) => Reply): Reply | undefined {
    const { method, url } = asked;
    const path = url.split("?")[0]!;
    if (method === "POST" && path === "/v1/files") return { body: this.#upload(asked) };
    const content = /^\/v1\/files\/([\w-]+)\/content$/.exec(path)?.[1];
    if (content !== undefined) {
      const text = this.files.get(content);
      if (text === undefined) return refusal(404, `No such File object: ${content}`);
      return { headers: { "content-type": "application/octet-stream" }, body: text };
    }
    const file = /^\/v1\/files\/([\w-]+)$/.exec(path)?.[1];
    if (file !== undefined) return method === "DELETE" ? this.#delete(file) : refusal(405, "Method not allowed.");
    if (path === "/v1/batches") {
      if (method !== "POST") return { body: this.#list(new URL(url, "http://x").searchParams) };
      const [lost, body] = [this.nextLost, this.#create(asked)];
      this.nextLost = undefined;
      return { body, ...(lost === undefined ? {} : { lost }) };
    }
    const [, id, isCancel] = /^\/v1\/batches\/([\w-]+)(\/cancel)?$/.exec(path) ?? [];
    if (id === undefined) return undefined;
    const batch = this.batches.find((each) => each.id === id);
    if (batch === undefined) return refusal(404, `No batch found with id '${id}'.`);
    if (isCancel !== undefined) this.#cancel(batch);
    else this.#advance(batch, answer);
    return { body: batch };
  }

  #upload({ headers, raw }: ProviderAsked): object {
    const boundary = /boundary=(\S+)/.exec(headers["content-type"] ?? "")?.[1];
    const parts = raw.toString("utf8").split(`--${boundary}`).slice(1, -1);
    const partOf = (name: string) => parts.find((part) => part.includes(`name="${name}"`));
    const contentOf = (part: string) => part.slice(part.indexOf("\r\n\r\n") + 4, -2);
    const [purpose, file] = [partOf("purpose"), partOf("file")];
    if (purpose === undefined || contentOf(purpose) !== "batch") {
      throw new Refusal(refusal(400, "'purpose' is a required property", null, "purpose"));
    }
    if (file === undefined || !/filename="[^"]+\.jsonl"/.test(file)) {
      throw new Refusal(refusal(400, "Invalid file format. Batch input must be .jsonl", null, "file"));
    }
    const id = `file-in${this.#newNumber()}`;
    this.files.set(id, contentOf(file));
    return { id, object: "file", purpose: "batch", bytes: contentOf(file).length };
  }

  /** What belongs to a batch that is not over is needed. */
  #delete(id: string): Reply {
    if (this.numFailedDeletions > 0) {
      this.numFailedDeletions--;
      return refusal(500, "The server had an error.");
    }
    const isUsed = this.batches.some(({ input_file_id, status }) => input_file_id === id && !OVER.includes(status));
    if (isUsed) return refusal(409, `File ${id} is used by a batch.`);
    const text = this.files.get(id);
    if (text === undefined) return refusal(404, `No such File object: ${id}`);
    this.files.delete(id);
    this.deleted.set(id, text);
    return { body: { id, object: "file", deleted: true } };
  }

  #create({ body }: ProviderAsked): Batch {
    const asked = checked(create, body, (path, message) => refusal(400, `${message} (${path})`, null, path));
    if (!this.files.has(asked.input_file_id)) {
      throw new Refusal(refusal(404, `No such File object: ${asked.input_file_id}`));
    }
    const batch: Batch = {
      ...asked,
      metadata: asked.metadata,
      id: `batch_${this.batches.length + 1}`,
      object: "batch",
      created_at: Math.floor(Date.now() / 1000),
      status: "validating",
      errors: null,
      output_file_id: null,
      error_file_id: null,
      request_counts: { total: 0, completed: 0, failed: 0 },
    };
    this.batches.push(batch);
    return batch;
  }

  /** The newest first, a page at a time. */
  #list(query: URLSearchParams): object {
    const all = this.batches.toReversed();
    const from = all.findIndex(({ id }) => id === query.get("after")) + 1;
    const data = all.slice(from, from + Number(query.get("limit") ?? 20));
    return { object: "list", data, has_more: from + data.length < all.length };
  }

  #cancel(batch: Batch): void {
    if (!["validating", "in_progress", "finalizing"].includes(batch.status)) {
      throw new Refusal(refusal(409, `Cannot cancel a batch with status '${batch.status}'.`));
    }
    batch.status = "cancelling";
  }

  #advance(batch: Batch, answer: Parameters<OpenaiBatches["reply"]>[1]): void {
    if (this.isStuck) return;
    if (batch.status === "validating") this.#validate(batch);
    else if (batch.status === "in_progress" && !this.isHeld) {
      this.#run(batch, answer);
      batch.status = "completed";
    } else if (batch.status === "cancelling") {
      this.#end(batch, [], this.#linesOf(batch).map(unrun("batch_cancelled")));
      batch.status = "cancelled";
    }
  }

  #validate(batch: Batch): void {
    const failure = this.nextFailure ?? this.#faultOf(batch);
    this.nextFailure = undefined;
    batch.status = failure === undefined ? "in_progress" : "failed";
    if (failure !== undefined) batch.errors = { object: "list", data: [{ ...failure, line: null, param: null }] };
  }

  #faultOf(batch: Batch): { readonly code: string; readonly message: string } | undefined {
    const texts = this.files.get(batch.input_file_id)!.split("\n");
    const read = texts.map((text) => line.safeParse(JSON.parse(text)));
    if (read.some(({ success }) => !success)) return { code: "invalid_json_line", message: "A line is not valid." };
    const lines = this.#linesOf(batch);
    if (lines.some(({ url }) => url !== batch.endpoint)) return { code: "mismatched_url", message: "Another URL." };
    if (new Set(lines.map(({ custom_id }) => custom_id)).size < lines.length) {
      return { code: "duplicate_custom_id", message: "The custom_id is a duplicate." };
    }
    const numModels = new Set(lines.map(({ body }) => body.model)).size;
    return numModels > 1 ? { code: "mismatched_model", message: "Only one model may be in a batch." } : undefined;
  }

  #run(batch: Batch, answer: Parameters<OpenaiBatches["reply"]>[1]): void {
    const [outputs, errors]: [string[], string[]] = [[], []];
    for (const { custom_id, url, body } of this.#linesOf(batch)) {
      this.ran.push(custom_id);
      let reply: Reply;
      try {
        reply = answer({ url, body });
      } catch (thrown) {
        if (!(thrown instanceof Refusal)) throw thrown;
        reply = thrown.reply;
      }
      const response = { status_code: reply.status ?? 200, request_id: `req_${this.ran.length}`, body: reply.body };
      const result = JSON.stringify({ id: `batch_req_${this.ran.length}`, custom_id, response, error: null });
      (response.status_code < 400 ? outputs : errors).push(result);
    }
    this.#end(batch, outputs, errors);
  }

  #end(batch: Batch, outputs: readonly string[], errors: readonly string[]): void {
    const stored = (name: string, lines: readonly string[]): string | null => {
      if (lines.length === 0) return null;
      const id = `file-${name}${this.#newNumber()}`;
      this.files.set(id, `${this.tamper(lines).join("\n")}\n`);
      return id;
    };
    batch.output_file_id = stored("out", outputs);
    batch.error_file_id = stored("err", errors);
    batch.request_counts = {
      total: outputs.length + errors.length,
      completed: outputs.length,
      failed: errors.length,
    };
  }

  #newNumber(): number {
    return this.files.size + this.deleted.size + 1;
  }

  #linesOf({ input_file_id }: Batch): readonly Line[] {
    return this.files
      .get(input_file_id)!
      .split("\n")
      .map((text) => line.parse(JSON.parse(text)));
  }
}

const unrun =
  (code: string) =>
  ({ custom_id }: Line, index: number): string =>
    JSON.stringify({ id: `batch_req_x${index}`, custom_id, response: null, error: { code, message: "Not executed." } });
