/**
 * Kept answers in cache.db, which outlast the process; those used last are in memory too. A thread writes answers (see
 * answer-table.ts); this thread reads them, since a read takes microseconds.
 */
import type Database from "libsql";
import { errorFromRecord } from "../../core/errors.js";
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
  type PlainJob,
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
  /** Upper bound of the part in memory. */
  readonly maxMemoryBytes: number;
}

/** Kept answers are written together: a transaction costs more than a row, and memory has them until then. */
const WAIT_MS = 50;
/** A group of this many answers is written at once. */
const MAX_COMING = 64;
/** Uses of answers noted together, since a write costs more than a read. */
const MAX_NOTED_USES = 256;
/** While more bytes wait for the disk, the cache keeps no further answers. */
const MAX_UNWRITTEN_BYTES = 32 * 1024 * 1024;

/** Answers that are written together. */
interface Group {
  readonly answers: Map<string, StoredAnswer>;
  numBytes: number;
  isDue: boolean;
  readonly written: Promise<void>;
  readonly settle: (written: Promise<void>) => void;
}

export class EmbeddedStore implements AnswerStore {
  readonly #memory: MemoryStore;
  readonly #get: Statement;
  readonly #keys: KeyFilter;
  readonly #runner: JobRunner;
  readonly #used = new Set<string>();
  /** Answers that are not in the database yet. */
  readonly #unwritten = new Map<string, StoredAnswer>();
  #unwrittenBytes = 0;
  /** The group that takes new answers until its turn comes, so it grows while another job runs. */
  #coming: Group | undefined;
  #lastTurn: Promise<unknown> = Promise.resolve();
  #numPurging = 0;
  #size: TableSize;

  constructor(
    database: Database.Database,
    private readonly options: EmbeddedStoreOptions,
    private readonly now: () => number = Date.now,
  ) {
    const { table, maxMemoryBytes } = options;
    this.#memory = new MemoryStore(maxMemoryBytes, now);
    for (const sql of schemaOf(table)) database.exec(sql);
    this.#get = database.prepare(`SELECT answer, expires_ms FROM ${table} WHERE key = ?`);
    this.#keys = KeyFilter.of(database, table);
    this.#size = sizeOf(database, table);
    this.#runner = runnerOf(database);
  }

  get(id: string): StoredAnswer | undefined {
    // The database may have an older answer than the unwritten one.
    const known = this.#memory.get(id) ?? this.#unwritten.get(id);
    if (known !== undefined) {
      if (known.expiresMs <= this.now()) return undefined;
      this.#noteUse(id);
      return known;
    }
    // If it were read now, an answer under purge would stay in memory.
    if (this.#numPurging > 0 || !this.#keys.mayHave(id)) return undefined;
    const row = this.#get.get([keyOf(id)]) as { answer: Buffer; expires_ms: number } | undefined;
    if (row === undefined || row.expires_ms <= this.now()) return undefined;
    const answer = decodeAnswer(row.answer);
    if (answer === undefined) return undefined;
    this.#memory.put(id, answer);
    this.#noteUse(id);
    return answer;
  }

  put(id: string, answer: StoredAnswer): Promise<void> {
    const isCache = this.options.table === "cache_exact";
    if (isCache && this.#unwrittenBytes > MAX_UNWRITTEN_BYTES) return Promise.resolve();
    // Most answers are never used again. A used answer enters memory then.
    this.#memory.delete(id);
    this.#unwritten.set(id, answer);
    this.#keys.add(id);
    this.#coming ??= this.#begin();
    const group = this.#coming;
    group.answers.set(id, answer);
    const numBytes = bytesOf(answer);
    group.numBytes += numBytes;
    this.#unwrittenBytes += numBytes;
    if (group.answers.size >= MAX_COMING) this.#write(group);
    return group.written;
  }

  async purge(filter: PurgeFilter): Promise<number> {
    this.#numPurging++;
    this.#memory.purge(filter);
    for (const [id, answer] of this.#unwritten) if (fits(filter, id, answer)) this.#unwritten.delete(id);
    // Later answers are not purged.
    if (this.#coming !== undefined) this.#write(this.#coming);
    this.#coming = undefined;
    try {
      const done = await this.#inTurn(() => this.#run({ kind: "purge", filter }));
      return done.kind === "purged" ? done.numPurged : 0;
    } finally {
      this.#numPurging--;
    }
  }

  stats(): StoreStats {
    return { kind: "embedded", ...this.#size, maxBytes: this.options.maxBytes };
  }

  async close(): Promise<void> {
    if (this.#used.size > 0) this.#coming ??= this.#begin();
    if (this.#coming !== undefined) this.#write(this.#coming);
    await this.#lastTurn;
    this.#runner.end();
    await this.#memory.close();
  }

  #begin(): Group {
    let settle: Group["settle"] = () => {};
    const written = new Promise<void>((resolve) => {
      settle = resolve;
    });
    // No caller waits for a note of uses, so its failure reaches nobody.
    written.catch(() => {});
    const group: Group = { answers: new Map(), numBytes: 0, isDue: false, written, settle };
    // A kept answer may be lost; a client that repeats an idempotent request after a crash counts on its answer.
    setTimeout(() => this.#write(group), this.options.table === "cache_exact" ? WAIT_MS : 0);
    return group;
  }

  #write(group: Group): void {
    if (group.isDue) return;
    group.isDue = true;
    group.settle(this.#inTurn(() => this.#keep(group)));
  }

  /** Jobs run one after another, in the order of their calls. */
  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const done = this.#lastTurn.then(job);
    this.#lastTurn = done.catch(() => {});
    return done;
  }

  async #keep(group: Group): Promise<void> {
    if (this.#coming === group) this.#coming = undefined;
    const { answers, numBytes } = group;
    try {
      const job = keepJob(answers, this.#used, this.now());
      this.#used.clear();
      const done = await this.#run(job);
      if (done.kind === "kept") for (const id of done.gone) this.#memory.delete(id);
    } finally {
      for (const [id, answer] of answers) if (this.#unwritten.get(id) === answer) this.#unwritten.delete(id);
      this.#unwrittenBytes -= numBytes;
    }
  }

  async #run(job: PlainJob): Promise<Exclude<AnswerDone, { kind: "failed" }>> {
    const { table, maxBytes } = this.options;
    const done = await this.#runner.run({ ...job, table, maxBytes });
    if (done.kind === "failed") throw errorFromRecord(done.error);
    this.#size = done.size;
    return done;
  }

  #noteUse(id: string): void {
    this.#used.add(id);
    if (this.#used.size < MAX_NOTED_USES) return;
    this.#coming ??= this.#begin();
    this.#write(this.#coming);
  }
}

/** Runs jobs: in the thread of the database's file, or here for a database in memory. */
interface JobRunner {
  run(job: AnswerJob): Promise<AnswerDone>;
  /** Ends the thread when no job is left. A later job starts it again. */
  end(): void;
}

const ofDatabases = new WeakMap<Database.Database, JobRunner>();

/** The one runner of a database: two writers would wait for each other's locks. */
function runnerOf(database: Database.Database): JobRunner {
  const known = ofDatabases.get(database);
  if (known !== undefined) return known;
  const path = fileOf(database);
  const made = path === undefined ? runnerHere(database) : threadOf(path);
  ofDatabases.set(database, made);
  return made;
}

function runnerHere(database: Database.Database): JobRunner {
  return {
    run: async (job) => new AnswerTable(database, job.table, job.maxBytes).run(job),
    end: () => {},
  };
}

function threadOf(path: string): JobRunner {
  const script = "gateway/cache/answer-thread.js";
  const name = "the thread that writes kept answers";
  const thread = new FairThread<AnswerJob, AnswerDone>({ script, workerData: { path }, name });
  return {
    run: (job) => thread.run(job, { tenant: "", cost: 1, moved: job.kind === "keep" ? [job.forms] : [] }),
    end: () => thread.end(),
  };
}
