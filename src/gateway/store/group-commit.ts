/** Commits the writes of one turn of the event loop as one transaction: a commit costs more than a row. */
import type Database from "libsql";

interface Pending {
  readonly write: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (thrown: unknown) => void;
}

export class GroupCommit {
  #pending: Pending[] = [];
  #isScheduled = false;
  readonly #begin;
  readonly #commit;
  readonly #rollback;

  constructor(private readonly database: Database.Database) {
    this.#begin = database.prepare("BEGIN IMMEDIATE");
    this.#commit = database.prepare("COMMIT");
    this.#rollback = database.prepare("ROLLBACK");
  }

  /**
   * Runs a synchronous write in the turn's transaction. Resolves with its result when the transaction is committed. A write that throws rejects alone, so it
   * must check before it changes anything.
   */
  run<T>(write: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({ write, resolve: resolve as (value: unknown) => void, reject });
      if (this.#isScheduled) return;
      this.#isScheduled = true;
      setImmediate(() => this.flush());
    });
  }

  /** Commits everything now. */
  flush(): void {
    this.#isScheduled = false;
    const pending = this.#pending;
    if (pending.length === 0) return;
    this.#pending = [];
    const done: (() => void)[] = [];
    try {
      this.#begin.run();
      for (const { write, resolve, reject } of pending) {
        try {
          const value = write();
          done.push(() => resolve(value));
        } catch (thrown) {
          // SQLite has undone everything by itself, as on a full disk: what followed would be committed alone.
          if (!this.database.inTransaction) throw thrown;
          done.push(() => reject(thrown));
        }
      }
      this.#commit.run();
    } catch (thrown) {
      this.#rollBack();
      for (const { reject } of pending) reject(thrown);
      return;
    }
    for (const settle of done) settle();
  }

  #rollBack(): void {
    try {
      this.#rollback.run();
    } catch {
      // The transaction had not begun, or has ended by itself.
    }
  }
}

const ofDatabases = new WeakMap<Database.Database, GroupCommit>();

/** The one group commit of a database, so that what several policies write in a turn is committed, or lost, together. */
export function groupCommitOf(database: Database.Database): GroupCommit {
  const known = ofDatabases.get(database);
  if (known !== undefined) return known;
  const made = new GroupCommit(database);
  ofDatabases.set(database, made);
  return made;
}
