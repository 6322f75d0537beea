/** Commits the writes of one turn of the event loop as one transaction: a commit costs more than a row. */
import type Database from "libsql";

interface Pending {
  readonly write: () => unknown;
  readonly isWhole: boolean;
  readonly resolve: (value: unknown) => void;
  readonly reject: (thrown: unknown) => void;
}

interface WriteOptions {
  /** The write may wait this long for the next transaction, since nothing outside depends on it. */
  readonly waitMs?: number;
  /** If the write throws, all of it is undone. Other writes must check before they change anything. */
  readonly isWhole?: boolean;
}

/** Wait for writes of requests: under load another request comes sooner, and its transaction takes the writes along. */
export const SOON_MS = 2;

/** `rush` begins no transaction within this time of the one before: under load, requests share transactions. */
const RUSH_MS = 4;

/** Created by `groupCommitOf`, one for each database. */
export class GroupCommit {
  #pending: Pending[] = [];
  #turn: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The timer's wait. */
  #waitMs = 0;
  #isHeld = false;
  #isRushing = false;
  /** When the last transaction began. */
  #lastMs = Number.NEGATIVE_INFINITY;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #savepoint;
  readonly #release;

  constructor(private readonly database: Database.Database) {
    this.#begin = database.prepare("BEGIN IMMEDIATE");
    this.#commit = database.prepare("COMMIT");
    this.#rollback = database.prepare("ROLLBACK");
    this.#savepoint = database.prepare("SAVEPOINT write");
    this.#release = database.prepare("RELEASE write");
  }

  /**
   * Runs a synchronous write in the turn's transaction. Resolves with its result when the transaction is committed. A
   * write that throws rejects alone, unless SQLite has ended the transaction (a full disk): then all writes of the turn
   * reject, and none is in the database.
   */
  run<T>(write: () => T, { waitMs = 0, isWhole = false }: WriteOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({ write, isWhole, resolve: resolve as (value: unknown) => void, reject });
      if (waitMs === 0) this.hurry();
      else if (this.#turn === undefined) this.#wait(waitMs);
    });
  }

  #wait(ms: number): void {
    if (this.#timer !== undefined && ms >= this.#waitMs) return;
    clearTimeout(this.#timer);
    this.#waitMs = ms;
    this.#timer = setTimeout(() => this.#endTurn(), ms);
  }

  /** Commits the queued writes at the end of this event-loop turn. */
  hurry(): void {
    this.#turn ??= setImmediate(() => this.#endTurn());
  }

  /**
   * Commits all waiting writes when the running callback is done, or, soon after a transaction, at the end of this
   * turn. The end of the turn is milliseconds away when the events of many streams come together.
   */
  rush(): void {
    this.hurry();
    if (this.#isRushing || performance.now() - this.#lastMs < RUSH_MS) return;
    this.#isRushing = true;
    process.nextTick(() => {
      this.#isRushing = false;
      this.#endTurn();
    });
  }

  /** Until `release`, only `flush` commits: the event loop must not wait while a thread has the database's lock. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    if (this.#pending.length > 0) this.hurry();
  }

  /** Commits everything now. */
  flush(): void {
    this.#unschedule();
    const pending = this.#pending;
    if (pending.length === 0) return;
    this.#lastMs = performance.now();
    this.#pending = [];
    const done: (() => void)[] = [];
    try {
      this.#begin.run([]);
      for (const each of pending) this.#write(each, pending.length === 1, done);
      this.#commit.run([]);
    } catch (thrown) {
      this.#rollBack();
      for (const { reject } of pending) reject(thrown);
      return;
    }
    for (const settle of done) settle();
  }

  /** Runs a synchronous write in a transaction of its own, now. Throws the write's errors; nothing is then written. */
  alone<T>(write: () => T): T {
    this.flush();
    this.#begin.run([]);
    try {
      const value = write();
      this.#commit.run([]);
      return value;
    } catch (thrown) {
      this.#rollBack();
      throw thrown;
    }
  }

  #rollBack(): void {
    try {
      if (this.database.inTransaction) this.#rollback.run([]);
    } catch {
      // The caller gets the failure that led here.
    }
  }

  #endTurn(): void {
    this.#unschedule();
    if (!this.#isHeld) this.flush();
  }

  #unschedule(): void {
    clearImmediate(this.#turn);
    clearTimeout(this.#timer);
    this.#turn = undefined;
    this.#timer = undefined;
  }

  /** Throws if the transaction cannot go on. */
  #write({ write, isWhole, resolve, reject }: Pending, isAlone: boolean, done: (() => void)[]): void {
    const hasSavepoint = isWhole && !isAlone;
    if (hasSavepoint) this.#savepoint.run([]);
    try {
      const value = write();
      if (hasSavepoint) this.#release.run([]);
      done.push(() => resolve(value));
    } catch (thrown) {
      // SQLite ends the transaction by itself when the disk is full or fails: further writes would be committed one by
      // one.
      if (!this.database.inTransaction || (isWhole && isAlone)) throw thrown;
      if (hasSavepoint) this.database.exec("ROLLBACK TO write; RELEASE write");
      done.push(() => reject(thrown));
    }
  }
}

const ofDatabases = new WeakMap<Database.Database, GroupCommit>();

/** The one group commit of a database, so that several policies' writes of a turn are committed, or lost, together. */
export function groupCommitOf(database: Database.Database): GroupCommit {
  const known = ofDatabases.get(database);
  if (known !== undefined) return known;
  const made = new GroupCommit(database);
  ofDatabases.set(database, made);
  return made;
}
