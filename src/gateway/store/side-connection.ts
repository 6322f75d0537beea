/**
 * A database's second connection, in a thread, for work that would hold up the event loop: reads over many rows, and
 * checkpoints, which copy the write-ahead log into the database and wait for the disk.
 */
import { errorFromRecord, MillraceError } from "../../core/errors.js";
import { FairThread } from "../../core/fair-thread.js";
import { type Database, fileOf } from "./database.js";
import { groupCommitOf } from "./group-commit.js";
import type { SideAnswer, SideJob } from "./side-thread.js";

export type Row = Readonly<Record<string, unknown>>;

const CHECKPOINT_MS = 1000;
/** 64 MiB of pages of 4 KiB. A longer log is restarted; transactions wait for that once. */
const MAX_LOG_PAGES = 16_384;
/** During reads, the log may grow to this multiple before it is restarted. */
const READING = 4;
/** Upper bound of one tenant's waiting reads. */
const MAX_WAITING = 16;
/** The tenant of checkpoints. */
const OWN = "";

interface ReadOptions {
  /** Reads take turns between tenants. */
  readonly tenant?: string;
  /** Integers are bigints. */
  readonly isExact?: boolean;
}

export class SideConnection {
  readonly #thread: FairThread<SideJob, SideAnswer> | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  #checkpointing: Promise<void> | undefined;
  #numReads = 0;

  constructor(
    private readonly database: Database.Database,
    private readonly maxLogPages = MAX_LOG_PAGES,
  ) {
    const path = fileOf(database);
    if (path === undefined) return;
    database.pragma("wal_autocheckpoint = 0");
    const name = "the reader of the gateway's database";
    this.#thread = new FairThread({ script: "gateway/store/side-thread.js", workerData: { path }, name });
    this.#timer = setInterval(() => void this.checkpoint(), CHECKPOINT_MS).unref();
  }

  /**
   * Runs a query over everything handed to the group commit before. Throws queue_full if the tenant has too many reads.
   */
  async read(sql: string, values: readonly unknown[], options: ReadOptions = {}): Promise<readonly Row[]> {
    const { tenant = OWN, isExact = false } = options;
    groupCommitOf(this.database).flush();
    if (this.#thread === undefined) {
      return this.database.prepare(sql).safeIntegers(isExact).all(values) as readonly Row[];
    }
    const waiting = this.#thread.waitingCost(tenant);
    if (waiting >= MAX_WAITING) {
      const message = `expected at most ${MAX_WAITING} queries at a time, got more`;
      throw new MillraceError("queue_full", message, { hint: "wait for the answers of earlier ones" });
    }
    this.#numReads++;
    const job = { kind: "read", sql, values, isExact } as const;
    const answer = await this.#thread.run(job, { tenant, cost: 1 }).finally(() => this.#numReads--);
    if (answer.kind === "read") return answer.rows;
    throw answer.kind === "failed"
      ? errorFromRecord(answer.error)
      : new MillraceError("internal_error", "expected rows");
  }

  /**
   * Copies the log into the database. Called every second; never rejects, since the next call makes up for a failure.
   */
  checkpoint(): Promise<void> {
    if (!this.database.open) clearInterval(this.#timer);
    else {
      this.#checkpointing ??= this.#checkpoint()
        .catch(() => {})
        .finally(() => {
          this.#checkpointing = undefined;
        });
    }
    return this.#checkpointing ?? Promise.resolve();
  }

  /** Empties the log, and ends the thread. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    groupCommitOf(this.database).flush();
    await this.#checkpointing;
    await this.#run("TRUNCATE").catch(() => {});
    this.#thread?.end();
  }

  async #checkpoint(): Promise<void> {
    if ((await this.#run("PASSIVE")) <= this.maxLogPages) return;
    // The first pass copied most pages. This one copies the few written meanwhile, so the restart is short.
    const pages = await this.#run("PASSIVE");
    // A restart would make transactions wait for running reads. It is delayed, but not forever.
    if (this.#numReads > 0 && pages < READING * this.maxLogPages) return;
    const commits = groupCommitOf(this.database);
    commits.hold();
    try {
      await this.#run("RESTART");
    } finally {
      commits.release();
    }
  }

  /** @returns pages of the log */
  async #run(mode: (SideJob & { kind: "checkpoint" })["mode"]): Promise<number> {
    const answer = await this.#thread?.run({ kind: "checkpoint", mode }, { tenant: OWN, cost: 1 });
    return answer?.kind === "checkpoint" ? answer.pages : 0;
  }
}

const ofDatabases = new WeakMap<Database.Database, SideConnection>();

/**
 * The one second connection of a database. From the first call on, checkpoints are its job; close it before the
 * database.
 */
export function sideOf(database: Database.Database): SideConnection {
  const known = ofDatabases.get(database);
  if (known !== undefined) return known;
  const made = new SideConnection(database);
  ofDatabases.set(database, made);
  return made;
}
