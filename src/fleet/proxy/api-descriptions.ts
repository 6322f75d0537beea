/**
 * Answers GET /openapi.json with an engine's own description of its API. The path needs no key, so it costs little: it takes no seat, starts no model, and
 * asks each process of an instance once.
 */

import { MillraceError, toMillraceError } from "../../core/errors.js";
import { API_DESCRIPTION_PATH } from "../../gateway/api/routes.js";
import { noneReady } from "../routing/waiting-room.js";
import { processOf, type Upstream, type UpstreamPool, type UpstreamTarget } from "../upstream/upstream.js";
import type { UpstreamConnections } from "./upstream-connections.js";

const TIMEOUT_MS = 10_000;
/** Far more than the description of any engine. */
const MAX_BYTES = 2 ** 23;

interface Described {
  readonly process: string;
  readonly document: Promise<Buffer>;
}

export class ApiDescriptions {
  /** Descriptions by instance id. */
  readonly #known = new Map<string, Described>();

  constructor(
    private readonly pool: UpstreamPool,
    private readonly connections: UpstreamConnections,
  ) {}

  /** The description of one of the model's ready instances. Rejects with no_instance_ready, upstream_failed, or not_found if the engine publishes none. */
  of(model: string): Promise<Buffer> {
    const ready = this.pool
      .upstreams(model)
      .filter(({ state, target }) => state === "ready" && target !== undefined && target.provider === undefined);
    const known = ready.map((upstream) => this.#knownOf(upstream)).find((document) => document !== undefined);
    if (known !== undefined) return known;
    const [upstream] = ready;
    if (upstream === undefined) return Promise.reject(noneReady(model));
    const document = this.#ask(upstream, upstream.target!);
    this.#known.set(upstream.id, { process: processOf(upstream), document });
    document.catch(() => this.#known.delete(upstream.id));
    return document;
  }

  #knownOf(upstream: Upstream): Promise<Buffer> | undefined {
    const known = this.#known.get(upstream.id);
    return known?.process === processOf(upstream) ? known.document : undefined;
  }

  async #ask({ id }: Upstream, { url }: UpstreamTarget): Promise<Buffer> {
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      // Sent without the instance's key, so that the public sees only what the engine shows to the public.
      const request = { path: API_DESCRIPTION_PATH, method: "GET", signal } as const;
      const { statusCode, body } = await this.connections.poolOf(url).request(request);
      const chunks: Buffer[] = [];
      let numBytes = 0;
      for await (const chunk of body as AsyncIterable<Buffer>) {
        numBytes += chunk.length;
        if (numBytes > MAX_BYTES) throw failed(id, `more than ${MAX_BYTES} bytes`);
        chunks.push(chunk);
      }
      if (statusCode === 200) return Buffer.concat(chunks);
      if (statusCode < 500) {
        throw new MillraceError(
          "not_found",
          `expected an engine with a public ${API_DESCRIPTION_PATH}, got ${statusCode} from ${id}`,
        );
      }
      throw failed(id, `the status ${statusCode}`);
    } catch (thrown) {
      throw thrown instanceof MillraceError ? thrown : failed(id, toMillraceError(thrown).message);
    }
  }
}

function failed(id: string, got: string): MillraceError {
  return new MillraceError("upstream_failed", `expected ${API_DESCRIPTION_PATH} of ${id}, got ${got}`);
}
