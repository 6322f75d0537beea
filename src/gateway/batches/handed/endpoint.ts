/** The batch endpoints of paid APIs, as a batch's run sees them. What they answer is hostile. */
import { createHash } from "node:crypto";
import type { Provider } from "../../dialects/provider.js";
import { AnthropicEndpoint } from "./anthropic-endpoint.js";
import { OpenAiEndpoint } from "./openai-endpoint.js";
import { ProviderHttp } from "./provider-http.js";

/** A file of lines that is sent, or has been. */
export interface SentFile {
  /** Begins the ids of its lines at the provider. */
  readonly key: string;
  /** Names this sending of the file. */
  readonly mark: string;
  readonly numLines: number;
  /** The path that every line asks for, such as /v1/chat/completions. */
  readonly path: string;
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

/** What became of a line. */
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
  readonly mostLines: number;
  /** One line of the file, without its end. @param body JSON */
  lineOf(id: string, path: string, body: Buffer): Buffer;
  /** @returns the id of the lines at the provider; undefined: they are sent with the batch */
  upload(file: SentFile, signal: AbortSignal): Promise<string | undefined>;
  /** @returns the provider's id of the batch */
  send(file: SentFile, signal: AbortSignal): Promise<string>;
  /** Looks for a file that may have been sent. */
  find(file: SentFile, signal: AbortSignal): Promise<Found>;
  look(id: string, signal: AbortSignal): Promise<Look>;
  cancel(id: string, signal: AbortSignal): Promise<void>;
  results(name: string, signal: AbortSignal): AsyncIterable<Buffer>;
  /** Throws where the line is not what the provider's API promises. */
  read(line: Buffer): ResultLine;
}

/** Undefined: the provider has no batch endpoint that is known here. */
export function batchEndpointOf(provider: Provider, url: string): BatchEndpoint | undefined {
  if (provider.engine === "openai") return new OpenAiEndpoint(new ProviderHttp(provider, url));
  return provider.engine === "anthropic" ? new AnthropicEndpoint(new ProviderHttp(provider, url)) : undefined;
}

/** Twelve hex digits. */
export const keyOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 12);
