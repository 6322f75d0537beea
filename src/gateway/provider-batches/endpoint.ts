/** The batch endpoint of a paid API, as a batch's run sees it. Its answers are untrusted. */

/** Upper bound of the difference between the provider's clock and ours. */
export const CLOCK_SKEW_MS = 10 * 60_000;

/** A file of lines that is to be sent, or has been. */
export interface SentFile {
  /** Prefix of the lines' ids at the provider. */
  readonly key: string;
  /** Identifies this sending of the file. */
  readonly mark: string;
  readonly numLines: number;
  /** The path that every line asks for, such as /v1/chat/completions. */
  readonly path: string;
  /** Headers of the provider's API. */
  readonly headers: Readonly<Record<string, string>>;
  /** Path of the lines on the disk. */
  readonly lines: string;
  /** The provider's id of the uploaded lines, if it wants them in a file. */
  readonly fileId?: string | undefined;
  /** Time of the first sending, in milliseconds since 1970. */
  readonly sentMs: number;
}

/** unsure: one of the provider's batches may be the file's; only its results will tell. */
export type Found = { readonly kind: "found"; readonly id: string } | { readonly kind: "none" | "unsure" };

export type Look =
  | { readonly kind: "running" }
  /** @property results to pass to `results`, in turn */
  | { readonly kind: "ended"; readonly results: readonly string[] }
  /** No line ran. @property isForNow the same lines may be sent again later */
  | { readonly kind: "failed"; readonly message: string; readonly isForNow: boolean };

/** The result of a line. */
export type LineOutcome =
  | { readonly kind: "answer"; readonly status: number; readonly body: Buffer }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "expired" | "cancelled" };

export interface ResultLine {
  readonly id: string;
  readonly outcome: LineOutcome;
}

export interface BatchEndpoint {
  /** Name of the provider. */
  readonly name: string;
  /** One line of the file, without its line break. @param body JSON */
  lineOf(id: string, path: string, body: Buffer): Buffer;
  /** @returns the id of the lines at the provider; undefined: the batch includes them */
  upload(file: SentFile, signal: AbortSignal): Promise<string | undefined>;
  /** @returns the provider's id of the batch */
  send(file: SentFile, signal: AbortSignal): Promise<string>;
  /** How many times in turn `find` must find nothing before a file counts as not sent. */
  readonly numLists: number;
  /** Looks for a file that may have been sent. */
  find(file: SentFile, signal: AbortSignal): Promise<Found>;
  look(id: string, signal: AbortSignal): Promise<Look>;
  cancel(id: string, signal: AbortSignal): Promise<void>;
  results(name: string, signal: AbortSignal): AsyncIterable<Buffer>;
  /** Deletes a file, of lines or of results. Absent: the provider has no files, or deletes them in time. */
  remove?(name: string, signal: AbortSignal): Promise<void>;
  /** Throws if the line is not of the form that the provider's API promises. */
  read(line: Buffer): ResultLine;
}
