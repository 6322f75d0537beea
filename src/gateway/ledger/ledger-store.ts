/** Writes the ledger. A row is committed with the turn of the event loop in which its request ends; kill -9 leaves open requests, which become lost ones. */
import type { RequestLogger } from "../../core/request-logger.js";
import type { Database, Statement } from "../store/database.js";
import type { GroupCommit } from "../store/group-commit.js";
import { HOUR_MS, HourSums } from "./hour-sums.js";
import type { AttemptRow, OpenRequest, RequestRow } from "./ledger-rows.js";
import {
  ADD_TO_HOUR,
  ATTEMPT_COLUMNS,
  createLedgerTables,
  HOURS_OF_DAY,
  marks,
  REQUEST_COLUMNS,
} from "./ledger-tables.js";

export const DAY_MS = 24 * HOUR_MS;

/** Rows that wait while the database refuses them, as on a full disk. */
const MAX_UNWRITTEN = 10_000;
const RETRY_MS = 1000;
/** A row that is refused for longer is dropped, so that one that can never be written does not stay for ever. */
const MAX_TRIES = 3600;

interface Unwritten {
  readonly row: RequestRow;
  readonly tries: number;
}

/** What a lost request is charged, as the budgets know it; undefined: they do not. */
export type LostCharge = (requestId: string) => bigint | undefined;

export class LedgerStore {
  readonly #savepoint: Statement;
  readonly #release: Statement;
  readonly #open: Statement;
  readonly #forgetOpen: Statement;
  readonly #request: Statement;
  readonly #attempt: Statement;
  readonly #hour: Statement;
  #nextSeq: number;
  /** What this turn of the event loop writes, in one transaction with what other policies write in it. */
  #opened: OpenRequest[] = [];
  #closed: Unwritten[] = [];
  #isScheduled = false;
  /** Rows that the database refused. */
  #refused: Unwritten[] = [];
  #numDropped = 0;
  #retry: NodeJS.Timeout | undefined;

  constructor(
    private readonly database: Database.Database,
    private readonly commits: GroupCommit,
    private readonly logger: RequestLogger,
  ) {
    createLedgerTables(database);
    this.#savepoint = database.prepare("SAVEPOINT ledger");
    this.#release = database.prepare("RELEASE ledger");
    this.#open = database.prepare(`INSERT INTO ledger_open VALUES (${marks(9)})`);
    this.#forgetOpen = database.prepare("DELETE FROM ledger_open WHERE seq IN (SELECT value FROM json_each(?))");
    this.#request = database.prepare(`INSERT INTO ledger_requests VALUES (${marks(REQUEST_COLUMNS.length)})`);
    this.#attempt = database.prepare(`INSERT INTO ledger_attempts VALUES (${marks(ATTEMPT_COLUMNS.length)})`);
    this.#hour = database.prepare(ADD_TO_HOUR);
    const tables = ["ledger_open", "ledger_requests"];
    const last = tables.map((table) => Number(firstValue(database, `SELECT max(seq) AS value FROM ${table}`) ?? 0));
    this.#nextSeq = Math.max(...last) + 1;
  }

  /** Rows that could not be written and are gone. */
  get numDropped(): number {
    return this.#numDropped;
  }

  nextSeq(): number {
    return this.#nextSeq++;
  }

  /** The marker is committed at the end of the turn, before any byte of an answer can come. */
  open(request: OpenRequest): void {
    this.#opened.push(request);
    this.#schedule();
  }

  /** The row is committed at the end of the turn. */
  close(row: RequestRow): void {
    this.#closed.push({ row, tries: 0 });
    this.#schedule();
  }

  /** Turns what an earlier process left open into lost requests. @returns their number */
  recover(nowMs: number, chargeOf: LostCharge = () => undefined): number {
    const left = this.database.prepare("SELECT * FROM ledger_open").all() as OpenColumns[];
    for (const { seq, id, began_ms: beganMs, tenant, team, key, path, asked, is_stream } of left) {
      const cost = chargeOf(id);
      const lost: AttemptRow = { ...LOST_ATTEMPT, model: asked, cost };
      const row: RequestRow = {
        seq,
        id,
        beganMs,
        tenant,
        team,
        key,
        path,
        asked,
        isStream: Boolean(is_stream),
        served: "",
        outcome: "lost",
        status: 0,
        error: "",
        firstByteMs: undefined,
        totalMs: Math.max(0, nowMs - beganMs),
        saved: 0n,
        savedBy: "",
        notes: "",
        attempts: cost === undefined ? [] : [lost],
      };
      this.close(row);
    }
    this.commits.flush();
    return left.length;
  }

  /** Deletes old rows, a few at a time. @returns whether there is more to delete */
  prune(beforeMs: number, maxRows: number, atMost: number): boolean {
    const { lo, hi } = this.database.prepare("SELECT min(seq) AS lo, max(seq) AS hi FROM ledger_requests").get() as {
      lo: number | null;
      hi: number | null;
    };
    if (lo === null || hi === null) return false;
    const last = this.database
      .prepare("SELECT seq FROM ledger_requests WHERE began_ms < ? ORDER BY began_ms DESC LIMIT 1")
      .get(beforeMs) as { seq: number } | undefined;
    // Rows have gaps only where requests still run, so the distance of two rows is the number of rows between them.
    const upTo = Math.min(Math.max(last?.seq ?? 0, hi - maxRows), lo + atMost - 1);
    if (upTo < lo) return false;
    this.commits.flush();
    this.#inTransaction(() => {
      this.database.prepare("DELETE FROM ledger_requests WHERE seq <= ?").run(upTo);
      this.database.prepare("DELETE FROM ledger_attempts WHERE seq <= ?").run(upTo);
    });
    return true;
  }

  /** Makes days of the hours of one old day. @returns whether there may be another */
  rollUpDay(beforeMs: number): boolean {
    const oldest = this.database
      .prepare(`SELECT min(hour) AS hour FROM ledger_hours WHERE hour < ? AND hour % ${DAY_MS} <> 0`)
      .get(beforeMs - (beforeMs % DAY_MS)) as { hour: number | null };
    if (oldest.hour === null) return false;
    const day = oldest.hour - (oldest.hour % DAY_MS);
    this.commits.flush();
    this.#inTransaction(() => {
      const rows = this.database
        .prepare(HOURS_OF_DAY)
        .raw()
        .safeIntegers(true)
        .all(day, day, day + DAY_MS);
      this.database.prepare("DELETE FROM ledger_hours WHERE hour >= ? AND hour < ?").run(day, day + DAY_MS);
      for (const row of rows as unknown[][]) this.#hour.run(row);
    });
    return true;
  }

  /** Writes what waits. */
  flush(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    for (const each of this.#refused) this.#closed.push(each);
    this.#refused = [];
    if (this.#closed.length > 0) this.#schedule();
    this.commits.flush();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    let taken: readonly Unwritten[] | undefined;
    const take = () => {
      const turn = { opened: this.#opened, closed: this.#closed };
      taken = turn.closed;
      this.#isScheduled = false;
      this.#opened = [];
      this.#closed = [];
      return turn;
    };
    const write = () => {
      const { opened, closed } = take();
      this.#write(opened, closed);
    };
    this.commits.run(write).catch((thrown: unknown) => {
      // A transaction that could not begin has taken nothing.
      for (const each of taken ?? take().closed) this.#keep(each, thrown);
    });
  }

  /** All or nothing: a transaction goes on after a write that failed. */
  #write(opened: readonly OpenRequest[], closed: readonly Unwritten[]): void {
    this.#savepoint.run([]);
    try {
      this.#writeAll(opened, closed);
      this.#release.run([]);
    } catch (thrown) {
      this.database.exec("ROLLBACK TO ledger");
      this.#release.run([]);
      throw thrown;
    }
  }

  #writeAll(opened: readonly OpenRequest[], closed: readonly Unwritten[]): void {
    const ends = new Set(closed.map(({ row }) => row.seq));
    const begins = new Set(opened.map(({ seq }) => seq));
    for (const { seq, id, beganMs, tenant, team, key, path, asked, isStream } of opened) {
      // A request that ends in its turn needs no marker.
      if (!ends.has(seq)) this.#open.run([seq, id, beganMs, tenant, team, key, path, asked, Number(isStream)]);
    }
    const marked = [...ends].filter((seq) => !begins.has(seq));
    if (marked.length > 0) this.#forgetOpen.run([JSON.stringify(marked)]);
    const hours = new HourSums();
    for (const { row } of closed) this.#writeRow(row, hours);
    for (const values of hours.rows()) this.#hour.run(values as unknown[]);
  }

  #writeRow(row: RequestRow, hours: HourSums): void {
    const { seq, attempts } = row;
    const cost = attempts.reduce((sum, attempt) => sum + (attempt.cost ?? 0n), 0n);
    this.#request.run([
      seq,
      row.id,
      row.beganMs,
      row.tenant,
      row.team,
      row.key,
      row.path,
      row.asked,
      Number(row.isStream),
      row.served,
      row.outcome,
      row.status,
      row.error,
      row.firstByteMs ?? null,
      row.totalMs,
      row.saved,
      row.savedBy,
      row.notes,
      cost,
      attempts.length,
    ]);
    for (const [i, attempt] of attempts.entries()) {
      this.#attempt.run(attemptValues(seq, i, attempt));
      hours.add(row, attempt, i === attempts.length - 1);
    }
    if (attempts.length === 0) hours.add(row, undefined, true);
  }

  #keep({ row, tries }: Unwritten, thrown: unknown): void {
    if (this.#refused.length >= MAX_UNWRITTEN || tries >= MAX_TRIES) {
      this.#numDropped++;
      if (this.#numDropped % 1000 === 1) {
        this.logger.error({ dropped: this.#numDropped, err: thrown }, "the ledger drops rows that it cannot write");
      }
      return;
    }
    this.#refused.push({ row, tries: tries + 1 });
    if (this.#retry !== undefined) return;
    this.logger.warn({ err: thrown }, "the ledger could not write, and tries again");
    this.#retry = setTimeout(() => this.flush(), RETRY_MS);
    this.#retry.unref();
  }

  #inTransaction(write: () => void): void {
    this.database.exec("BEGIN IMMEDIATE");
    try {
      write();
      this.database.exec("COMMIT");
    } catch (thrown) {
      this.database.exec("ROLLBACK");
      throw thrown;
    }
  }
}

interface OpenColumns {
  readonly seq: number;
  readonly id: string;
  readonly began_ms: number;
  readonly tenant: string;
  readonly team: string;
  readonly key: string;
  readonly path: string;
  readonly asked: string;
  readonly is_stream: number;
}

const LOST_ATTEMPT: AttemptRow = {
  instance: "",
  engine: "",
  model: "",
  startMs: 0,
  firstByteMs: undefined,
  totalMs: 0,
  status: 0,
  outcome: "lost",
  counts: undefined,
  cost: undefined,
  price: "charged as it was reserved",
};

function attemptValues(seq: number, index: number, attempt: AttemptRow): unknown[] {
  const { counts } = attempt;
  return [
    seq,
    index,
    attempt.instance,
    attempt.engine,
    attempt.model,
    attempt.startMs,
    attempt.firstByteMs ?? null,
    attempt.totalMs,
    attempt.status,
    attempt.outcome,
    counts?.fresh ?? null,
    counts?.cacheRead ?? null,
    counts?.cacheWrite ?? null,
    counts?.output ?? null,
    counts?.reasoning ?? null,
    counts?.drafted ?? null,
    counts?.accepted ?? null,
    Number(counts?.isEstimated === true),
    attempt.cost ?? null,
    attempt.price,
  ];
}

function firstValue(database: Database.Database, sql: string): unknown {
  return (database.prepare(sql).get() as { readonly value: unknown }).value;
}
