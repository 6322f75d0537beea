/**
 * The gateway's last requests with the times of their parts. The gateway's parts come from the observer's events, the
 * instance's from the instance, which is asked only when an operator looks.
 */
import type { ErrorCode } from "../../core/errors.js";
import type { Outcome, ProxyObserver, RequestObserver, RequestStart } from "../../gateway/observer.js";
import type { RequestLog } from "../../observe/live/request-log.js";
import { RequestRing, type RequestRow, type readQuery, requestRows } from "../../observe/live/request-rows.js";
import { askForText } from "../adapters/engine-http.js";
import type { Upstream, UpstreamTarget } from "../upstream/upstream.js";

const ASK_MS = 2000;
/** Limit for one query: servers accept 16 KiB of URL and headers. */
const MOST_IDS = 50;
const MOST_ID_BYTES = 8192;
const REASON_LENGTH = 200;
const PATH_LENGTH = 80;

class GatewayNote implements RequestObserver {
  readonly #atMs = Date.now();
  readonly #startMs = performance.now();
  readonly #start: Pick<RequestRow, "id" | "path" | "model" | "tenant">;
  #passedMs: number | undefined;
  #routedMs: number | undefined;
  #firstByteMs: number | undefined;
  #endMs: number | undefined;
  #instance: string | undefined;
  #hedge: { readonly instance: string; readonly atMs: number } | undefined;
  #retries: { instance: string; reason: string }[] | undefined;
  #end: Pick<RequestRow, "outcome" | "status" | "error_code"> = { outcome: "running" };
  /** The instance's own record of a request that has ended. */
  #told: RequestRow | undefined;
  /** The instance has no more to add. */
  isKnown = false;

  readonly #isStream: boolean;

  constructor(
    { requestId, path, model, tenant, isStream }: RequestStart,
    private readonly log: RequestLog | undefined,
  ) {
    this.#isStream = isStream;
    this.#start = { id: requestId, path: path.slice(0, PATH_LENGTH), model, tenant };
  }

  get id(): string {
    return this.#start.id;
  }

  get instance(): string | undefined {
    return this.#instance;
  }

  get hasEnded(): boolean {
    return this.#endMs !== undefined;
  }

  passed(): void {
    this.#passedMs ??= performance.now();
  }

  routed(instance: string): void {
    const hedge = this.#hedge;
    this.#instance = instance;
    this.#routedMs = hedge?.instance === instance ? hedge.atMs : performance.now();
  }

  hedged(instance: string): void {
    this.#hedge = { instance, atMs: performance.now() };
  }

  retried(instance: string, reason: string): void {
    this.#retries ??= [];
    this.#retries.push({ instance, reason: reason.slice(0, REASON_LENGTH) });
  }

  firstByte(): void {
    this.#firstByteMs ??= performance.now();
  }

  ended(outcome: Outcome, status: number, code: ErrorCode | undefined): void {
    this.#endMs = performance.now();
    this.#end = { outcome, status, error_code: code };
    this.log?.(this.row());
  }

  /** @param told the instance's row; undefined: the instance has none */
  learn(told: RequestRow | undefined): void {
    this.#told = told;
    this.isKnown = this.hasEnded && told?.outcome !== "running";
  }

  row(): RequestRow {
    const nowMs = performance.now();
    const endMs = this.#endMs ?? nowMs;
    const own: RequestRow = {
      ...this.#start,
      at_ms: this.#atMs,
      ...this.#end,
      instance: this.#instance,
      policies_ms: (this.#passedMs ?? endMs) - this.#startMs,
      routing_ms: this.#passedMs === undefined ? undefined : (this.#routedMs ?? endMs) - this.#passedMs,
      // The first byte of an answer without a stream comes with its last.
      ttft_ms: this.#isStream && this.#firstByteMs !== undefined ? this.#firstByteMs - this.#startMs : undefined,
      total_ms: endMs - this.#startMs,
      retries: this.#retries,
    };
    return this.#told === undefined ? own : this.#withTold(own, this.#told);
  }

  /** The client and the outcome come from the gateway; token counts and times of the parts come from the engine. */
  #withTold(own: RequestRow, told: RequestRow): RequestRow {
    const { id: _, at_ms, path, model, tenant, outcome, status, total_ms, error_code, ttft_ms, ...parts } = told;
    const beforeMs = this.#routedMs! - this.#startMs;
    return {
      ...own,
      ...parts,
      instance: own.instance,
      retries: own.retries,
      policies_ms: own.policies_ms,
      routing_ms: own.routing_ms,
      error_code: own.error_code ?? error_code,
      ttft_ms: ttft_ms === undefined ? own.ttft_ms : beforeMs + ttft_ms,
    };
  }
}

export interface Inspected {
  readonly rows: readonly RequestRow[];
  /** Largest number of remembered requests. */
  readonly kept: number;
}

export class Inspector implements ProxyObserver {
  readonly #ring = new RequestRing<GatewayNote>();

  /** @param upstreams all instances @param log called with the gateway's part of each request at its end */
  constructor(
    private readonly upstreams: () => readonly Upstream[],
    private readonly log?: RequestLog,
  ) {}

  started(start: RequestStart): RequestObserver {
    const note = new GatewayNote(start, this.log);
    this.#ring.keep(note);
    return note;
  }

  /** Refused requests are counted by metrics and have no row here. */
  refused(): void {}

  async find(query: ReturnType<typeof readQuery>): Promise<Inspected> {
    const notes = this.#ring.find(query).map(({ note }) => note);
    const unknown = this.#withOwnId(notes.filter(({ isKnown }) => !isKnown));
    const asked = this.upstreams().map(async ({ id, engine, target }) => {
      const own = unknown.filter(({ instance }) => instance === id);
      if (engine === "millrace" && target !== undefined && own.length > 0) await learnFrom(target, own);
    });
    await Promise.all(asked);
    return { rows: notes.map((note) => note.row()), kept: this.#ring.size };
  }

  /** Clients choose ids: two tenants may use the same one, and an engine's row does not say which tenant sent it. */
  #withOwnId(notes: readonly GatewayNote[]): readonly GatewayNote[] {
    if (notes.length === 0) return notes;
    const all = this.#ring.find({ limit: this.#ring.size, failed: false, id: notes.map(({ id }) => id) });
    const counts = new Map<string, number>();
    for (const { note } of all) counts.set(note.id, (counts.get(note.id) ?? 0) + 1);
    return notes.filter(({ id }) => counts.get(id) === 1);
  }
}

/** Rows of a portion without an answer keep only the gateway's parts. @param notes with distinct ids */
async function learnFrom(target: UpstreamTarget, notes: readonly GatewayNote[]): Promise<void> {
  const signal = AbortSignal.timeout(ASK_MS);
  for (const some of portionsOf(notes)) {
    try {
      const path = `/watch/requests?limit=200${some.map(queryOf).join("")}`;
      const { data } = requestRows.parse(JSON.parse(await askForText(target, path, signal)));
      // The newest row is first, and wins: an instance may get one request twice.
      const byId = new Map(data.toReversed().map((row) => [row.id, row]));
      for (const note of some) note.learn(byId.get(note.id));
    } catch {
      // The rows then keep only the gateway's parts.
    }
  }
}

const queryOf = ({ id }: GatewayNote): string => `&id=${encodeURIComponent(id)}`;

function portionsOf(notes: readonly GatewayNote[]): readonly (readonly GatewayNote[])[] {
  const portions: GatewayNote[][] = [];
  let numBytes = 0;
  for (const note of notes) {
    const idBytes = queryOf(note).length;
    const last = portions.at(-1);
    const isFull = last === undefined || last.length === MOST_IDS || numBytes + idBytes > MOST_ID_BYTES;
    if (isFull) portions.push([note]);
    else last.push(note);
    numBytes = (isFull ? 0 : numBytes) + idBytes;
  }
  return portions;
}
