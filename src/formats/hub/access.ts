/** The hub's address, its token, and the time limit of a connection. */
import { MillraceError } from "../../core/errors.js";
import { authorised, type HubAccess } from "./listing.js";
import type { HubSpec } from "./spec.js";

export interface HubOptions {
  /** HF_ENDPOINT, else the public hub. */
  readonly endpoint?: string | undefined;
  /** HF_TOKEN. */
  readonly token?: string | undefined;
  readonly fetch?: typeof fetch;
  /**
   * Ends the question or the download with the signal's reason. The received part of a download stays, and the next one
   * goes on from there.
   */
  readonly signal?: AbortSignal | undefined;
}

const PUBLIC_ENDPOINT = "https://huggingface.co";
/** For questions, which somebody waits for; downloads take as long as they take. */
const ASK_MS = 20_000;

export function hubAccess(options: HubOptions): HubAccess {
  const { fetch: plainFetch = fetch, signal } = options;
  const endpoint = (options.endpoint ?? process.env.HF_ENDPOINT ?? PUBLIC_ENDPOINT).replace(/\/+$/, "");
  const fetchFn: typeof fetch =
    signal === undefined ? plainFetch : (input, init) => plainFetch(input, { ...init, signal });
  return { endpoint, fetch: authorised(fetchFn, checkedUrl(endpoint), options.token ?? process.env.HF_TOKEN) };
}

/** For a question that needs no signal of its own. */
export const questionAccess = (options: HubOptions): HubAccess =>
  hubAccess({ ...options, signal: options.signal ?? AbortSignal.timeout(ASK_MS) });

function checkedUrl(endpoint: string): string {
  if (URL.canParse(endpoint)) return endpoint;
  throw new MillraceError("hub_spec", `expected the hub's endpoint as a URL, got ${JSON.stringify(endpoint)}`, {
    hint: `set HF_ENDPOINT to a URL such as ${PUBLIC_ENDPOINT}, or leave it out`,
  });
}

export function resolveUrl({ endpoint }: HubAccess, { repo, revision }: HubSpec, file: string): string {
  const encodedFile = file.split("/").map(encodeURIComponent).join("/");
  return `${endpoint}/${repo}/resolve/${encodeURIComponent(revision)}/${encodedFile}`;
}
