/** Follows one answer of `/v1/embeddings`, which counts as arriving whole, with its last byte. */
import { z } from "zod";
import type { Turn } from "../workload/session.js";
import { DETAIL_CHARS, type Failure, type RequestPlace, type RequestRecord } from "./record.js";

const answered = z.object({
  data: z.array(z.object({ embedding: z.array(z.number()) })),
  usage: z.object({ prompt_tokens: z.int().min(1) }),
});

/** Number of vectors and tokens in an answer's text; a failure if the text has another form. */
export function readVectors(
  text: string,
): { readonly vectors: readonly (readonly number[])[]; readonly numTokens: number } | Failure {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { kind: "broken", detail: `an answer without valid JSON: ${text.slice(0, DETAIL_CHARS)}` };
  }
  const { data, error } = answered.safeParse(json);
  if (error !== undefined) return { kind: "broken", detail: z.prettifyError(error).slice(0, DETAIL_CHARS) };
  return { vectors: data.data.map(({ embedding }) => embedding), numTokens: data.usage.prompt_tokens };
}

export class VectorsAnswer {
  readonly #pieces: Buffer[] = [];
  #sentMs: number | undefined;
  #lastMs: number | undefined;
  #status = 200;

  onSent(nowMs: number): void {
    this.#sentMs = nowMs;
  }

  onStatus(status: number): void {
    this.#status = status;
  }

  onData(nowMs: number, bytes: Buffer): void {
    this.#lastMs = nowMs;
    this.#pieces.push(bytes);
  }

  get text(): string {
    return Buffer.concat(this.#pieces).toString("utf8");
  }

  end(place: RequestPlace, { numVectorsAsked }: Turn, transport: Failure | undefined): RequestRecord {
    const sentMs = this.#sentMs ?? place.intendedMs;
    const lastMs = this.#lastMs ?? sentMs;
    const status = this.#status === 200 ? undefined : this.#status;
    const read =
      transport ??
      (status === undefined
        ? readVectors(this.text)
        : { kind: "status" as const, detail: `${status}: ${this.text.slice(0, DETAIL_CHARS)}` });
    const record = { ...place, sentMs, answerAtMs: undefined, lastMs, numCachedTokens: 0, finishReason: undefined };
    if ("kind" in read) return { ...record, chunkAtMs: [], numPromptTokens: 0, numOutputTokens: 0, failure: read };
    const numVectors = read.vectors.length;
    return {
      ...record,
      answerAtMs: lastMs,
      chunkAtMs: [lastMs],
      numPromptTokens: read.numTokens,
      numOutputTokens: numVectors,
      failure:
        numVectors === numVectorsAsked
          ? undefined
          : { kind: "length", detail: `expected ${numVectorsAsked} vectors, got ${numVectors}` },
    };
  }
}
