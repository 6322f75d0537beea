/** Work for a tokenizer that may be long, as messages between threads; see async-tokenizer.ts. */
import { tokenText } from "./token-text.js";
import type { EncodeOptions, Tokenizer } from "./tokenizer.js";

export type Job =
  | { readonly kind: "encode"; readonly texts: readonly string[]; readonly options: EncodeOptions }
  | { readonly kind: "list"; readonly text: string; readonly options: EncodeOptions; readonly withTexts: boolean }
  | { readonly kind: "decode"; readonly ids: readonly number[] | Int32Array; readonly keepSpecial: boolean };

/** The ids of each text, a list, or a text, by the kind of job. */
export type JobResult = readonly Int32Array<ArrayBuffer>[] | TokenList | string;

/** A text's tokens, written out. */
export interface TokenList {
  readonly count: number;
  /** UTF-8 of a JSON array of ids. */
  readonly ids: Uint8Array<ArrayBuffer>;
  /** UTF-8 of a JSON array of texts, or of null. */
  readonly texts: Uint8Array<ArrayBuffer>;
}

const utf8 = new TextEncoder();

/** Characters and ids together: what a job's time grows with. */
export function jobSize(job: Job): number {
  switch (job.kind) {
    case "encode":
      return job.texts.reduce((sum, text) => sum + text.length, 0);
    case "list":
      return job.text.length;
    case "decode":
      return job.ids.length;
  }
}

/** Throws what the tokenizer throws. */
export function runJob(tokenizer: Tokenizer, job: Job): JobResult {
  switch (job.kind) {
    case "encode":
      return job.texts.map((text) => Int32Array.from(tokenizer.encode(text, job.options)));
    case "list": {
      const ids = tokenizer.encode(job.text, job.options);
      const texts = job.withTexts ? ids.map((id) => tokenText(tokenizer, id)) : null;
      return { count: ids.length, ids: utf8.encode(JSON.stringify(ids)), texts: utf8.encode(JSON.stringify(texts)) };
    }
    case "decode":
      return tokenizer.decode(job.ids, { keepSpecial: job.keepSpecial });
  }
}

/** Buffers that the result need not be copied for. */
export function buffersOf(result: JobResult): readonly ArrayBuffer[] {
  if (typeof result === "string") return [];
  return "ids" in result ? [result.ids.buffer, result.texts.buffer] : result.map(({ buffer }) => buffer);
}
