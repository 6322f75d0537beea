/**
 * Documents in which engines describe themselves, such as GET /openapi.json. Fetching one costs little: it takes no
 * seat,
 * starts no model, and asks each process of an instance once.
 */

import { MillraceError, toMillraceError } from "../../core/errors.js";
import { noneReady } from "../routing/waiting-room.js";
import { processOf, type Upstream, type UpstreamPool, type UpstreamTarget } from "../upstream/upstream.js";
import type { UpstreamConnections } from "./upstream-connections.js";

const TIMEOUT_MS = 10_000;
/** Far above the size of any engine's document. */
const MAX_BYTES = 2 ** 23;

/** The request that gets a document. */
interface Question {
  readonly path: string;
  readonly method: "GET" | "POST";
  readonly body?: string;
  /** Fetched without the instance's key, so that the document holds only what the engine shows to everyone. */
  readonly isPublic: boolean;
  /** Whether an engine has such a document; others are not asked. Absent: all have it. */
  readonly isOf?: (upstream: Upstream) => boolean;
}

interface Known {
  readonly process: string;
  readonly document: Promise<Buffer>;
}

export class InstanceDocuments {
  /** Documents by instance id. */
  readonly #known = new Map<string, Known>();

  constructor(
    private readonly pool: UpstreamPool,
    private readonly connections: UpstreamConnections,
    private readonly question: Question,
  ) {}

  /**
   * The document of one of the model's ready instances. Rejects with no_instance_ready, upstream_failed, or not_found
   * if the engine has none.
   */
  of(model: string): Promise<Buffer> {
    const { isOf = () => true } = this.question;
    const ready = this.pool
      .upstreams(model)
      .filter(({ state, target }) => state === "ready" && target !== undefined && target.provider === undefined)
      .filter(isOf);
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

  async #ask({ id }: Upstream, { url, apiKey }: UpstreamTarget): Promise<Buffer> {
    const { path, method, body: sent, isPublic } = this.question;
    const failed = (got: string) => new MillraceError("upstream_failed", `expected ${path} of ${id}, got ${got}`);
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const headers = isPublic || apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
      const request = { path, method, headers, body: sent ?? null, signal } as const;
      const { statusCode, body } = await this.connections.poolOf(url).request(request);
      const chunks: Buffer[] = [];
      let numBytes = 0;
      for await (const chunk of body as AsyncIterable<Buffer>) {
        numBytes += chunk.length;
        if (numBytes > MAX_BYTES) throw failed(`more than ${MAX_BYTES} bytes`);
        chunks.push(chunk);
      }
      if (statusCode === 200) return Buffer.concat(chunks);
      if (statusCode < 500) {
        throw new MillraceError("not_found", `expected an engine with ${path}, got ${statusCode} from ${id}`);
      }
      throw failed(`the status ${statusCode}`);
    } catch (thrown) {
      throw thrown instanceof MillraceError ? thrown : failed(toMillraceError(thrown).message);
    }
  }
}
