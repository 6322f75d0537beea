/** A client's session: consecutive requests, each generated from the previous answer. */

export interface Turn {
  /** Path after the server's URL. */
  readonly path: string;
  /** JSON, with `stream` and `stream_options.include_usage` where the answer is text. */
  readonly body: string;
  /** Headers that replace the server's headers of the same names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The exact length of the answer; another length is a failure. Undefined: any length. */
  readonly numTokensAsked: number | undefined;
  /** Number of vectors in the answer, as one JSON object. Absent: the answer is a stream of text. */
  readonly numVectorsAsked?: number | undefined;
}

export interface Session {
  /** @param answer the text of the previous answer, "" at first. @returns undefined at the session's end */
  next(answer: string): Turn | undefined;
}

export type OpenSession = (index: number) => Session;
