/**
 * Kept answers in the gateway's database, with those used last in memory too. They outlast the process. A thread writes
 * them (see answer-table.ts); they are read here, since a read takes microseconds.
 */
import type Database from "libsql";
import { errorFromRecord, MillraceError } from "../../core/errors.js";
import { FairThread } from "../../core/fair-thread.js";
import { fileOf, type Statement } from "../store/database.js";
import { type AnswerStore, fits, type PurgeFilter, type StoreStats } from "./answer-store.js";
import {
  type AnswerDone,
  type AnswerJob,
  AnswerTable,
  type AnswerTableName,
  keepJob,
  keyOf,
  schemaOf,
  sizeOf,
  type TableSize,
} from "./answer-table.js";
import { KeyFilter } from "./key-filter.js";
import { MemoryStore } from "./memory-store.js";
import { bytesOf, decodeAnswer, type StoredAnswer } from "./stored-answer.js";

interface EmbeddedStoreOptions {
  readonly table: AnswerTableName;
  readonly maxBytes: number;
  /** Bound of the part in memory. */
  readonly maxMemoryBytes: number;
}

/** Kept answers are written together: a transaction costs more than a row, and memory has them until then. */
const WAIT_MS = 50;
/** So many are written at once. */
const MAX_COMING = 64;
/** Uses of answers that are noted together, since a write costs more than a read. */
const MAX_NOTED_USES = 256;
/** Beyond as much, answers that the disk does not take in time are not kept. */
const MAX_UNWRITTEN_BYTES = 32 * 1024 * 1024;

/** Where jobs end: in the thread, or here for a database in memory. */
interface JobRunner {
  run(job: AnswerJob): Promise<AnswerDone>;
  end(): void;
}

/** Answers that are written together. */
interface Group {
  readonly answers: Map<string, StoredAnswer>;
  numBytes: number;
  readonly written: Promise<void>;
  readonly settle: (written: Promise<void>) => void;
  readonly timer: NodeJS.Timeout;
}

export class EmbeddedStore implements AnswerStore {
  readonly #memory: MemoryStore;
  readonly #get: Statement;
  readonly #keys: KeyFilter;
  readonly #runner: JobRunner;
  readonly #used = new Set<string>();
  /** Answers that the database does not have yet. */
  readonly #unwritten = new Map<string, StoredAnswer>();
  #unwrittenBytes = 0;
  #coming: Group | undefined;
  /** Jobs end in the order of their beginning. */
  #lastJob: Promise<unknown> = Promise.resolve();
  #size: TableSize;

  constructor(
    database: Database.Database,
    private readonly options: EmbeddedStoreOptions,
    private readonly now: () => number = Date.now,
  ) {
    const { table, maxBytes, maxMemoryBytes } = options;
    this.#memory = new MemoryStore(maxMemoryBytes, now);
    for (const sql of schemaOf(table)) database.exec(sql);
    this.#get = database.prepare(`SELECT answer, expires_ms FROM ${table} WHERE key = ?`);
    this.#keys = KeyFilter.of(database, table);
    this.#size = sizeOf(database, table);
    this.#runner = runnerOf(database, table, maxBytes);
  }

  get(id: string): StoredAnswer | undefined {
    const known = this.#memory.get(id) ?? this.#unwritten.get(id);
    if (known !== undefined) {
      if (known.expiresMs <= this.now()) return undefined;
      this.#noteUse(id);
      return known;
    }
    if (!this.#keys.mayHave(id)) return undefined;
    const row = this.#get.get([keyOf(id)]) as { answer: Buffer; expires_ms: number } | undefined;
    if (row === undefined || row.expires_ms <= this.now()) return undefined;
    const answer = decodeAnswer(row.answer);
    if (answer === undefined) return undefined;
    this.#memory.put(id, answer);
    this.#noteUse(id);
    return answer;
  }

  put(id: string, answer: StoredAnswer): Promise<void> {
    if (this.#unwrittenBytes > MAX_UNWRITTEN_BYTES) {
      const message = `expected the disk to take kept answers, got ${this.#unwrittenBytes} bytes that wait for it`;
      const hint = "keep the data folder on a faster disk";
      return Promise.reject(new MillraceError("queue_full", message, { hint }));
    }
    // Most answers are never used again. An answer that is used comes into memory then.
    this.#memory.delete(id);
    this.#unwritten.set(id, answer);
    this.#keys.add(id);
    this.#coming ??= this.#begin();
    const group = this.#coming;
    group.answers.set(id, answer);
    const numBytes = bytesOf(answer);
    group.numBytes += numBytes;
    this.#unwrittenBytes += numBytes;
    if (group.answers.size >= MAX_COMING) this.#flush();
    return group.written;
  }

  async purge(filter: PurgeFilter): Promise<number> {
    this.#flush();
    this.#memory.purge(filter);
    for (const [id, answer] of this.#unwritten) if (fits(filter, id, answer)) this.#unwritten.delete(id);
    const done = await this.#run({ kind: "purge", filter });
    return done.kind === "purged" ? done.gone : 0;
  }

  stats(): StoreStats {
    return { kind: "embedded", ...this.#size, maxBytes: this.options.maxBytes };
  }

  async close(): Promise<void> {
    if (this.#used.size > 0) this.#coming ??= this.#begin();
    this.#flush();
    await this.#lastJob.catch(() => {});
    this.#runner.end();
    await this.#memory.close();
  }

  #begin(): Group {
    let settle: Group["settle"] = () => {};
    const written = new Promise<void>((resolve) => {
      settle = resolve;
    });
    // The notes of uses have no caller that a failure would reach.
    written.catch(() => {});
    // A kept answer may be lost; a client that sends an idempotent request again after a crash counts on its own.
    const timer = setTimeout(() => this.#flush(), this.options.table === "cache_exact" ? WAIT_MS : 0);
    return { answers: new Map(), numBytes: 0, written, settle, timer };
  }

  /** Has the coming answers written. */
  #flush(): void {
    const coming = this.#coming;
    if (coming === undefined) return;
    this.#coming = undefined;
    clearTimeout(coming.timer);
    coming.settle(this.#keep(coming));
  }

  async #keep({ answers, numBytes }: Group): Promise<void> {
    const job = keepJob(answers, this.#used, this.now());
    this.#used.clear();
    try {
      const done = await this.#run(job);
      if (done.kind === "kept") for (const id of done.gone) this.#memory.delete(id);
    } finally {
      for (const [id, answer] of answers) if (this.#unwritten.get(id) === answer) this.#unwritten.delete(id);
      this.#unwrittenBytes -= numBytes;
    }
  }

  async #run(job: AnswerJob): Promise<AnswerDone> {
    const running = this.#runner.run(job);
    this.#lastJob = running;
    const done = await running;
    if (done.kind === "failed") throw errorFromRecord(done.error);
    this.#size = done.size;
    return done;
  }

  #noteUse(id: string): void {
    this.#used.add(id);
    if (this.#used.size < MAX_NOTED_USES) return;
    this.#coming ??= this.#begin();
    this.#flush();
  }
}

function runnerOf(database: Database.Database, table: AnswerTableName, maxBytes: number): JobRunner {
  const path = fileOf(database);
  if (path === undefined) {
    const own = new AnswerTable(database, table, maxBytes);
    return { run: async (job) => own.run(job), end: () => {} };
  }
  const script = "gateway/cache/answer-thread.js";
  const name = "the thread that writes kept answers";
  const thread = new FairThread<AnswerJob, AnswerDone>({ script, workerData: { path, table, maxBytes }, name });
  return {
    run: (job) => thread.run(job, { tenant: "", cost: 1, moved: job.kind === "keep" ? [job.forms] : [] }),
    end: () => thread.end(),
  };
}
