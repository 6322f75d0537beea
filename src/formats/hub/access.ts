/** The hub's address, its token, and the time that it may be silent. */
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
/** For questions, which somebody waits for. A slow answer may take longer, since the header of a model is large. */
const MAX_SILENCE_MS = 20_000;

export function hubAccess(options: HubOptions): HubAccess {
  const { fetch: plainFetch = fetch, signal } = options;
  const endpoint = (options.endpoint ?? process.env.HF_ENDPOINT ?? PUBLIC_ENDPOINT).replace(/\/+$/, "");
  const fetchFn: typeof fetch =
    signal === undefined ? plainFetch : (input, init) => plainFetch(input, { ...init, signal });
  return { endpoint, fetch: authorised(fetchFn, checkedUrl(endpoint), options.token ?? process.env.HF_TOKEN) };
}

/** For questions: each ends when the hub is silent. */
export const questionAccess = (options: HubOptions): HubAccess =>
  hubAccess({ ...options, fetch: endingSilence(options.fetch ?? fetch) });

/** A `fetch` that fails where nothing comes for MAX_SILENCE_MS: no headers, or no further bytes of the body. */
function endingSilence(fetchFn: typeof fetch): typeof fetch {
  return async (input, init) => {
    const silence = new AbortController();
    const end = () => silence.abort(new Error(`nothing for ${MAX_SILENCE_MS / 1000} s`));
    const timer = setTimeout(end, MAX_SILENCE_MS).unref();
    const signal = AbortSignal.any([silence.signal, ...(init?.signal ? [init.signal] : [])]);
    try {
      const response = await fetchFn(input, { ...init, signal });
      const heard = new TransformStream<Uint8Array, Uint8Array>({
        transform: (chunk, controller) => {
          timer.refresh();
          controller.enqueue(chunk);
        },
        flush: () => clearTimeout(timer),
      });
      return response.body === null ? response : new Response(response.body.pipeThrough(heard), response);
    } catch (thrown) {
      clearTimeout(timer);
      throw thrown;
    }
  };
}

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
