/** All batches of a gateway: creates, resumes, cancels and lists them, and deletes the expired ones. */
import { randomBytes } from "node:crypto";
import { MillraceError } from "../../core/errors.js";
import type { CallerIdentity } from "../caller-identity.js";
import { Cancellation } from "../cancellation.js";
import { BatchRun, type RunContext } from "./batch-run.js";
import type { KeyedResource, Page, PageQuery } from "./batch-table.js";
import { assertSame, type FileShelf } from "./file-shelf.js";
import { Lane } from "./lane.js";
import { COMPLETION_WINDOW_SECONDS, IDEMPOTENCY_KEPT_SECONDS, MESSAGE_BATCH_KEPT_SECONDS } from "./limits.js";
import type { LineIndex } from "./line-index.js";
import type { ModelLoad } from "./pace.js";
import { PartCleanup } from "./part-cleanup.js";
import { type BatchKind, type BatchRecord, isOver, NO_LINES, NO_USAGE } from "./record.js";

interface BatchesOptions extends Omit<RunContext, "laneOf" | "cleanup"> {
  readonly shelf: FileShelf;
  /** The load of a model, by any of its names. */
  readonly loadOf: (model: string) => ModelLoad;
  /** One name for all names of a model: they share a lane. */
  readonly nameOf: (model: string) => string;
  /** Upper bound of the lines of all batches that are under way at a model. */
  readonly mostLines: () => number;
  /** Batches of a tenant that are not over. */
  readonly maxOpenBatches: () => number;
}

/** The parts of a new batch. */
interface NewBatch {
  readonly kind: BatchKind;
  readonly owner: CallerIdentity;
  readonly endpoint: string;
  readonly inputFileId: string;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly outputExpiresAfter: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Time between two looks of the lanes for a free seat, each for one line: hundreds of lines at once would delay
 * clients.
 */
const PUMP_MS = 10;
const SWEEP_MS = 60_000;

export class Batches {
  readonly #runs = new Map<string, BatchRun>();
  readonly #lanes = new Map<string, Lane>();
  #pumpTimer: NodeJS.Timeout | undefined;
  #sweepTimer: NodeJS.Timeout | undefined;
  #cleanup: PartCleanup | undefined;
  #isClosing = false;

  constructor(private readonly options: BatchesOptions) {}

  /** Continues every batch that is not over. */
  async start(): Promise<void> {
    const { folders, table, handed } = this.options;
    await folders.create();
    this.#cleanup = handed && (await PartCleanup.open({ ...this.options, handed }));
    this.#cleanup?.tend();
    const open = table.openBatches();
    const ids = new Set(open.map(({ id }) => id));
    await folders.sweep(
      (id) => table.hasFile(id),
      (id) => ids.has(id),
    );
    for (const batch of open) this.#run(batch);
    this.#sweepTimer = setInterval(() => this.#sweepInBackground(), SWEEP_MS).unref();
    await this.sweep();
  }

  /** @param key the request's Idempotency-Key; a batch that was created under it before is returned again */
  async create(batch: NewBatch, key?: Omit<KeyedResource, "id">): Promise<BatchRecord> {
    const before = this.before(key);
    if (before !== undefined) return before;
    const record = this.#recordOf(batch, `batch_${randomBytes(16).toString("hex")}`);
    this.assertFew(batch.owner.tenant);
    await this.options.folders.adoptInput(record.id, batch.inputFileId);
    return this.#add(record, key);
  }

  /**
   * Creates a batch whose lines came with the request and are checked.
   * @param id of the batch, under which its folder has the lines
   */
  async createChecked(
    batch: NewBatch,
    id: string,
    input: { readonly index: LineIndex; readonly models: readonly string[] },
    key?: Omit<KeyedResource, "id">,
  ): Promise<BatchRecord> {
    const { index, models } = input;
    await index.write(this.options.folders.index(id));
    const record = this.#recordOf(batch, id);
    const times = { validating: record.createdAt, in_progress: record.createdAt };
    return this.#add({ ...record, state: "in_progress", times, numLines: index.length, models }, key);
  }

  /** The batch that an Idempotency-Key stands for; undefined: none yet. Throws idempotency_conflict */
  before(key: Omit<KeyedResource, "id"> | undefined): BatchRecord | undefined {
    const { table } = this.options;
    const known = key === undefined ? undefined : table.keyed(key.tenant, key.operation, key.key);
    if (key === undefined || known === undefined) return undefined;
    assertSame(known.fingerprint, { ...key, id: known.id });
    const kind = key.operation === "messages" ? "anthropic" : "openai";
    const record = table.batch(key.tenant, kind, known.id);
    return record === undefined ? undefined : this.#live(record);
  }

  get(tenant: string, kind: BatchKind, id: string): BatchRecord {
    const record = this.options.table.batch(tenant, kind, id);
    if (record !== undefined) return this.#live(record);
    throw noBatch(
      id,
      kind === "anthropic"
        ? "GET /v1/messages/batches lists the batches of your key's organisation"
        : "GET /v1/batches, or millrace batch list, lists the batches of your key's organisation",
    );
  }

  list(tenant: string, kind: BatchKind, query: PageQuery): Page<BatchRecord> {
    const page = this.options.table.batches(tenant, kind, query);
    return { ...page, items: page.items.map((record) => this.#live(record)) };
  }

  /** Batches of all tenants and both APIs. */
  listAll(query: PageQuery): Page<BatchRecord> {
    const page = this.options.table.batchesOfAll(query);
    return { ...page, items: page.items.map((record) => this.#live(record)) };
  }

  /** Cancels any tenant's batch. Throws not_found, or invalid_request for a batch past cancelling. */
  cancelAny(id: string): BatchRecord {
    const record = this.options.table.batchOfAll(id);
    if (record === undefined) throw noBatch(id, "GET /admin/batches lists the batches of all tenants");
    return this.cancel(record.owner.tenant, record.kind, id);
  }

  /** Throws invalid_request for a batch past cancelling. */
  cancel(tenant: string, kind: BatchKind, id: string): BatchRecord {
    const record = this.get(tenant, kind, id);
    const run = this.#runs.get(id);
    if (run === undefined) {
      throw new MillraceError(
        "invalid_request",
        `expected a batch that is not over, got ${id}, which is ${record.state}`,
      );
    }
    run.cancel();
    return run.record;
  }

  /** Throws invalid_request for a batch that is not over. */
  async remove(tenant: string, kind: BatchKind, id: string): Promise<void> {
    const record = this.get(tenant, kind, id);
    if (!isOver(record.state)) {
      throw new MillraceError("invalid_request", `expected a batch that has ended, got ${id}, which has not`, {
        hint: "cancel it first",
      });
    }
    await this.#forget(record);
  }

  /** Deletes expired files and batches. */
  async sweep(): Promise<void> {
    const { table, shelf, keptSeconds, nowMs } = this.options;
    const nowSeconds = Math.floor(nowMs() / 1000);
    await shelf.removeExpired();
    table.forgetKeysBefore(nowSeconds - IDEMPOTENCY_KEPT_SECONDS);
    for (const batch of table.overBefore(nowSeconds - Math.min(keptSeconds(), MESSAGE_BATCH_KEPT_SECONDS))) {
      await this.#forget(batch);
    }
  }

  /** Begins no more lines; those under way may end until `close`. */
  leave(): void {
    this.#isClosing = true;
    for (const run of this.#runs.values()) run.leave();
  }

  /** Stops the lines under way, which run again at the next start. */
  async close(): Promise<void> {
    this.leave();
    clearInterval(this.#pumpTimer);
    clearInterval(this.#sweepTimer);
    await Promise.all([...this.#runs.values()].map((run) => run.stop()));
    await this.#cleanup?.close();
  }

  #add(record: BatchRecord, key: Omit<KeyedResource, "id"> | undefined): BatchRecord {
    // Another request with the same key may have made a batch while the body arrived.
    const before = this.before(key);
    if (before !== undefined) {
      void this.options.folders.removeRun(record.id);
      return before;
    }
    this.options.table.addBatch(record, key === undefined ? undefined : { ...key, id: record.id });
    this.#run(record);
    return record;
  }

  #recordOf(batch: NewBatch, id: string): BatchRecord {
    const createdAt = Math.floor(this.options.nowMs() / 1000);
    return {
      ...batch,
      id,
      createdAt,
      expiresAt: createdAt + COMPLETION_WINDOW_SECONDS,
      state: "validating",
      times: { validating: createdAt },
      numLines: 0,
      models: [],
      counts: NO_LINES,
      usage: NO_USAGE,
      faults: [],
      outputFileId: undefined,
      errorFileId: undefined,
    };
  }

  /** Throws storage_quota if a tenant has too many open batches. */
  assertFew(tenant: string): void {
    const most = this.options.maxOpenBatches();
    if (this.options.table.numOpen(tenant) < most) return;
    throw new MillraceError("storage_quota", `expected at most ${most} batches that are not over, got more`, {
      hint: "wait for one of them to end, or cancel one",
    });
  }

  #live(record: BatchRecord): BatchRecord {
    return this.#runs.get(record.id)?.record ?? record;
  }

  #run(record: BatchRecord): void {
    if (this.#isClosing) return;
    const context = { ...this.options, laneOf: (model: string) => this.#laneOf(model), cleanup: this.#cleanup };
    const run = new BatchRun(context, record);
    this.#runs.set(record.id, run);
    this.#pumpTimer ??= setInterval(() => this.#pump(), PUMP_MS);
    void run.start().then(() => {
      this.#runs.delete(record.id);
      if (this.#runs.size > 0) return;
      clearInterval(this.#pumpTimer);
      this.#pumpTimer = undefined;
    });
  }

  #laneOf(model: string): Lane {
    const name = this.options.nameOf(model);
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const lane = new Lane({
      load: () => this.options.loadOf(name),
      mostLines: this.options.mostLines,
      newCancellation: () => new Cancellation(),
      now: () => performance.now(),
    });
    this.#lanes.set(name, lane);
    return lane;
  }

  #pump(): void {
    for (const [name, lane] of this.#lanes) {
      if (lane.isIdle) this.#lanes.delete(name);
      else lane.pump();
    }
  }

  async #forget({ id, kind, outputFileId }: BatchRecord): Promise<void> {
    const { table, folders } = this.options;
    table.removeBatch(id);
    if (kind !== "anthropic" || outputFileId === undefined) return;
    table.removeFile(outputFileId);
    await folders.removeFile(outputFileId);
  }

  #sweepInBackground(): void {
    this.#cleanup?.tend();
    this.sweep().catch((err: unknown) => this.options.logger.warn({ err }, "could not delete expired files"));
  }
}

function noBatch(id: string, hint: string): MillraceError {
  return new MillraceError("not_found", `expected the id of a batch, got ${JSON.stringify(id.slice(0, 80))}`, { hint });
}
