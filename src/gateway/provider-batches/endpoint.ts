/** The batch endpoint of a paid API, as a batch's run sees it. What it answers is hostile. */

/** Difference of the provider's clock and ours, at most. */
export const CLOCK_SKEW_MS = 10 * 60_000;

/** A file of lines that is sent, or has been. */
export interface SentFile {
  /** Begins the ids of its lines at the provider. */
  readonly key: string;
  /** Names this sending of the file. */
  readonly mark: string;
  readonly numLines: number;
  /** The path that every line asks for, such as /v1/chat/completions. */
  readonly path: string;
  /** Of the provider's API. */
  readonly headers: Readonly<Record<string, string>>;
  /** Where the lines lie on the disk. */
  readonly lines: string;
  /** The provider's id of the uploaded lines, where it wants them apart. */
  readonly fileId?: string | undefined;
  /** When it was sent for the first time, in milliseconds since 1970. */
  readonly sentMs: number;
}

/** unsure: one of the provider's batches may be the file's, and only its results will tell. */
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
  /** One line of the file, without its end. @param body JSON */
  lineOf(id: string, path: string, body: Buffer): Buffer;
  /** @returns the id of the lines at the provider; undefined: they are sent with the batch */
  upload(file: SentFile, signal: AbortSignal): Promise<string | undefined>;
  /** @returns the provider's id of the batch */
  send(file: SentFile, signal: AbortSignal): Promise<string>;
  /** So many times in turn `find` has to find nothing before a file counts as not sent. */
  readonly numLists: number;
  /** Looks for a file that may have been sent. */
  find(file: SentFile, signal: AbortSignal): Promise<Found>;
  look(id: string, signal: AbortSignal): Promise<Look>;
  cancel(id: string, signal: AbortSignal): Promise<void>;
  results(name: string, signal: AbortSignal): AsyncIterable<Buffer>;
  /** Deletes a file, of lines or of results. Absent: the provider has none, or deletes them in time. */
  remove?(name: string, signal: AbortSignal): Promise<void>;
  /** Throws where the line is not what the provider's API promises. */
  read(line: Buffer): ResultLine;
}
