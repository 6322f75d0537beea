/** What a client does: requests one after another, each made when the answer before it is known. */

export interface Turn {
  /** Below the server's URL. */
  readonly path: string;
  /** JSON, with `stream` and `stream_options.include_usage`. */
  readonly body: string;
  /** In place of the server's own of the same name. */
  readonly headers?: Readonly<Record<string, string>>;
  /** An answer of another length is a failure; undefined: it ends where it ends. */
  readonly numTokensAsked: number | undefined;
}

export interface Session {
  /** @param answer the text that answered the turn before, "" at first; undefined when there is nothing more to ask */
  next(answer: string): Turn | undefined;
}

export type OpenSession = (index: number) => Session;
