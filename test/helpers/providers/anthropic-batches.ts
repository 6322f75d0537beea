/** Anthropic's batches of messages. A batch ends with the first question for it, and goes on while it is held. */
import { z } from "zod";
import { checked, type ProviderAsked, Refusal, type Reply } from "./provider-server.js";

const create = z.strictObject({
  requests: z
    .array(
      z.strictObject({
        custom_id: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/),
        params: z.looseObject({ model: z.string(), stream: z.literal(false).optional() }),
      }),
    )
    .min(1)
    .max(100_000),
});
type Requests = z.output<typeof create>["requests"];

interface Batch {
  readonly id: string;
  readonly requests: Requests;
  readonly createdMs: number;
  status: "in_progress" | "canceling" | "ended";
  results: readonly string[];
}

const refusal = (status: number, type: string, message: string): Reply => ({
  status,
  body: { type: "error", error: { type, message }, request_id: "req_011CSH" },
});

export class AnthropicBatches {
  readonly batches: Batch[] = [];
  isHeld = false;
  /** What happens to the answer to the next batch, which is made all the same. */
  nextLost: Reply["lost"];
  readonly ran: string[] = [];

  /** @returns undefined for other paths */
  reply(asked: ProviderAsked, answer: (params: Requests[number]["params"]) => object): Reply | undefined {
    const { method, url } = asked;
    const { pathname, searchParams } = new URL(url, "http://x");
    if (pathname === "/v1/messages/batches") {
      if (method !== "POST") return { body: this.#list(searchParams, answer) };
      const [lost, body] = [this.nextLost, shown(this.#create(asked))];
      this.nextLost = undefined;
      return { body, ...(lost === undefined ? {} : { lost }) };
    }
    const [, id, rest] = /^\/v1\/messages\/batches\/(\w+)(\/cancel|\/results)?$/.exec(pathname) ?? [];
    if (id === undefined) return undefined;
    const batch = this.batches.find((each) => each.id === id);
    if (batch === undefined) return refusal(404, "not_found_error", "Not Found");
    if (rest === "/cancel") {
      if (batch.status === "in_progress") batch.status = "canceling";
      return { body: shown(batch) };
    }
    if (rest === "/results") {
      if (batch.status !== "ended") return refusal(404, "not_found_error", "The batch has no results yet.");
      return { headers: { "content-type": "application/x-jsonl" }, body: `${batch.results.join("\n")}\n` };
    }
    this.#advance(batch, answer);
    return { body: shown(batch) };
  }

  #create({ body }: ProviderAsked): Batch {
    const { requests } = checked(create, body, (path, message) =>
      refusal(400, "invalid_request_error", `${path}: ${message}`),
    );
    if (new Set(requests.map(({ custom_id }) => custom_id)).size < requests.length) {
      throw new Refusal(refusal(400, "invalid_request_error", "requests: custom_id must be unique"));
    }
    const id = `msgbatch_${this.batches.length + 1}`;
    const batch: Batch = { id, requests, createdMs: Date.now(), status: "in_progress", results: [] };
    this.batches.push(batch);
    return batch;
  }

  /** Whoever lists his batches sees them go on. */
  #list(query: URLSearchParams, answer: (params: Requests[number]["params"]) => object): object {
    for (const batch of this.batches) this.#advance(batch, answer);
    const all = this.batches.toReversed();
    const from = all.findIndex(({ id }) => id === query.get("after_id")) + 1;
    const data = all.slice(from, from + Number(query.get("limit") ?? 20)).map(shown);
    return { data, has_more: from + data.length < all.length, first_id: null, last_id: null };
  }

  #advance(batch: Batch, answer: (params: Requests[number]["params"]) => object): void {
    if (batch.status === "ended" || (batch.status === "in_progress" && this.isHeld)) return;
    const isCancelled = batch.status === "canceling";
    batch.status = "ended";
    batch.results = batch.requests.map(({ custom_id, params }) => {
      if (isCancelled) return JSON.stringify({ custom_id, result: { type: "canceled" } });
      this.ran.push(custom_id);
      try {
        return JSON.stringify({ custom_id, result: { type: "succeeded", message: answer(params) } });
      } catch (thrown) {
        if (!(thrown instanceof Refusal)) throw thrown;
        return JSON.stringify({ custom_id, result: { type: "errored", error: thrown.reply.body } });
      }
    });
  }
}

function shown({ id, requests, createdMs, status, results }: Batch): object {
  const isOver = status === "ended";
  const numOf = (type: string) => results.filter((each) => each.includes(`"type":"${type}"`)).length;
  return {
    id,
    type: "message_batch",
    processing_status: status,
    request_counts: {
      processing: isOver ? 0 : requests.length,
      succeeded: results.filter((each) => each.includes('"result":{"type":"succeeded"')).length,
      errored: results.filter((each) => each.includes('"result":{"type":"errored"')).length,
      canceled: numOf("canceled"),
      expired: 0,
    },
    created_at: new Date(createdMs).toISOString(),
    results_url: isOver ? `https://elsewhere.example/v1/messages/batches/${id}/results` : null,
  };
}
