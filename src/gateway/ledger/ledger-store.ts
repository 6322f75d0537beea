/**
 * Writes the ledger. An open request's note is committed with the turn in which the request begins, its row with the
 * next transaction, at most two milliseconds after its end. After kill -9, requests with a note and no row become lost
 * ones.
 */
import type { RequestLogger } from "../../core/request-logger.js";
import type { Database, Statement } from "../store/database.js";
import { type GroupCommit, SOON_MS } from "../store/group-commit.js";
import { HOUR_MS, HourSums } from "./hour-sums.js";
import type { AttemptRow, OpenRequest, RequestRow } from "./ledger-rows.js";
import {
  ADD_TO_HOUR,
  ATTEMPT_COLUMNS,
  createLedgerTables,
  DELETE_ROWS_OF_HOUR,
  DIMENSIONS,
  insertInto,
  milliseconds,
  REQUEST_COLUMNS,
  ROWS_OF_HOUR,
} from "./ledger-tables.js";
import { OpenRequests } from "./open-requests.js";
import { UsualRows } from "./usual-rows.js";

export const DAY_MS = 24 * HOUR_MS;

/** Rows that wait while the database refuses them, as when the disk is full. */
const MAX_UNWRITTEN = 10_000;
const RETRY_MS = 1000;
/** A row that is refused for longer is dropped, so that an unwritable row does not stay for ever. */
const MAX_TRIES = 3600;

interface Unwritten {
  readonly row: RequestRow;
  readonly tries: number;
}

/** The budgets' charge for a lost request; undefined: the budgets do not know the request. */
export type LostCharge = (requestId: string) => bigint | undefined;

export class LedgerStore {
  readonly #notes: OpenRequests;
  readonly #usual: UsualRows;
  readonly #request: Statement;
  readonly #attempt: Statement;
  readonly #hour: Statement;
  readonly #hasRow: Statement;
  readonly #oldest: Statement;
  readonly #newest: Statement;
  readonly #lastOld: Statement;
  readonly #deleteRequests: Statement;
  readonly #deleteAttempts: Statement;
  readonly #hourAfter: Statement;
  readonly #hourRows: Statement;
  readonly #deleteHourRows: Statement;
  /** All hours up to this one have been moved. */
  #rolledMs = -1;
  #nextSeq: number;
  /** Rows for the next transaction, which also writes other policies' rows. */
  #opened: OpenRequest[] = [];
  #closed: Unwritten[] = [];
  #isScheduled = false;
  /** Rows that the database refused. */
  #refused: Unwritten[] = [];
  #numDropped = 0;
  #retry: NodeJS.Timeout | undefined;

  constructor(
    database: Database.Database,
    private readonly commits: GroupCommit,
    private readonly logger: RequestLogger,
  ) {
    createLedgerTables(database);
    this.#notes = new OpenRequests(database);
    this.#usual = new UsualRows(database);
    this.#request = database.prepare(insertInto("ledger_requests", REQUEST_COLUMNS));
    this.#attempt = database.prepare(insertInto("ledger_attempts", ATTEMPT_COLUMNS));
    this.#hour = database.prepare(ADD_TO_HOUR);
    this.#hasRow = database.prepare("SELECT 1 FROM ledger_requests WHERE seq = ?");
    this.#oldest = database.prepare("SELECT min(seq) AS value FROM ledger_requests");
    this.#newest = database.prepare("SELECT max(seq) AS value FROM ledger_requests");
    this.#lastOld = database.prepare(
      "SELECT max(seq) AS value FROM ledger_requests WHERE seq >= ? AND seq <= ? AND began_ms < ?",
    );
    this.#deleteRequests = database.prepare("DELETE FROM ledger_requests WHERE seq <= ?");
    this.#deleteAttempts = database.prepare("DELETE FROM ledger_attempts WHERE seq <= ?");
    this.#hourAfter = database.prepare(
      "SELECT hour FROM ledger_hours WHERE hour > ? AND hour < ? ORDER BY hour LIMIT 1",
    );
    this.#hourRows = database.prepare(ROWS_OF_HOUR).raw().safeIntegers(true);
    this.#deleteHourRows = database.prepare(DELETE_ROWS_OF_HOUR);
    this.#nextSeq = Math.max(this.#notes.newestSeq() ?? 0, firstValue(this.#newest) ?? 0) + 1;
  }

  /** Number of rows that could not be written and are gone. */
  get numDropped(): number {
    return this.#numDropped;
  }

  nextSeq(): number {
    return this.#nextSeq++;
  }

  /** The note is committed at the end of the turn, before any byte of an answer can come. */
  open(request: OpenRequest): void {
    this.#opened.push(request);
    this.#schedule();
    this.commits.hurry();
  }

  /** The row is committed together with the settlement of its turn. */
  close(row: RequestRow): void {
    this.#closed.push({ row, tries: 0 });
    this.#schedule();
  }

  /** Resolves when the rows so far are committed, or the database has refused them and they wait for another try. */
  async written(): Promise<void> {
    await this.commits.run(() => {}).catch(() => {});
  }

  /**
   * Closes the requests that an earlier process left open, as lost ones.
   *
   * @returns their number
   */
  recover(nowMs: number, chargeOf: LostCharge = () => undefined): number {
    const left = this.commits.alone(() => this.#notes.left((seq) => this.#isWritten(seq)));
    for (const open of left) {
      const { id, asked } = open;
      const cost = chargeOf(id);
      const lost: AttemptRow = { ...LOST_ATTEMPT, model: asked, cost };
      const row: RequestRow = {
        ...open,
        served: "",
        outcome: "lost",
        status: 0,
        error: "",
        firstByteMs: undefined,
        totalMs: Math.max(0, nowMs - open.beganMs),
        saved: 0n,
        savedBy: "",
        notes: "",
        maxTokens: undefined,
        numAnswers: undefined,
        endUser: "",
        attempts: cost === undefined ? [] : [lost],
      };
      this.close(row);
    }
    this.commits.flush();
    return left.length;
  }

  /** Deletes old rows, a few at a time. @returns whether old rows are left */
  prune(beforeMs: number, maxRows: number, atMost: number): boolean {
    const [lo, hi] = [firstValue(this.#oldest), firstValue(this.#newest)];
    if (lo === undefined || hi === undefined) return false;
    const end = Math.min(lo + atMost - 1, hi);
    const old = firstValue(this.#lastOld, [lo, end, beforeMs]) ?? 0;
    // Rows have gaps only at running requests, so the distance of two rows is the number of rows between them.
    const upTo = Math.min(Math.max(old, hi - maxRows), end);
    if (upTo < lo) return false;
    this.commits.alone(() => {
      this.#notes.dropRows(upTo, (seq) => this.#isWritten(seq));
      this.#deleteRequests.run([upTo]);
      this.#deleteAttempts.run([upTo]);
      this.#usual.deleteUpTo(upTo);
    });
    return true;
  }

  /** Moves sums of an old hour to the first hour of its day, some at a time. @returns whether there may be more */
  rollUp(beforeMs: number, atMost: number): boolean {
    const before = beforeMs - (beforeMs % DAY_MS);
    for (;;) {
      const next = this.#hourAfter.get([this.#rolledMs, before]) as { readonly hour: number } | undefined;
      if (next === undefined) return false;
      if (next.hour % DAY_MS !== 0) return this.#rollUpHour(next.hour, atMost);
      this.#rolledMs = next.hour;
    }
  }

  #rollUpHour(hour: number, atMost: number): true {
    this.commits.alone(() => {
      const rows = this.#hourRows.all([hour, atMost]) as unknown[][];
      for (const [, ...values] of rows) this.#hour.run([hour - (hour % DAY_MS), ...values]);
      this.#deleteHourRows.run(rows.at(-1)!.slice(0, DIMENSIONS.length));
    });
    return true;
  }

  /** Writes the queued rows. */
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
    this.commits.run(write, { waitMs: SOON_MS, isWhole: true }).then(
      () => {
        for (const { row } of taken!) this.#notes.committed(row.seq);
      },
      (thrown: unknown) => {
        this.#usual.forget();
        // If the transaction could not begin, `write` has not taken the rows, and this line takes them.
        for (const each of taken ?? take().closed) this.#keep(each, thrown);
      },
    );
  }

  #write(opened: readonly OpenRequest[], closed: readonly Unwritten[]): void {
    const ends = new Set(closed.map(({ row }) => row.seq));
    // A request that ends before the transaction needs no note.
    this.#notes.begin(opened.filter(({ seq }) => !ends.has(seq)));
    for (const seq of ends) this.#notes.end(seq);
    const hours = new HourSums();
    for (const { row, tries } of closed) {
      // A transaction that seemed to fail may have been committed.
      if (tries === 0 || !this.#isWritten(row.seq)) this.#writeRow(row, hours);
    }
    for (const values of hours.rows()) this.#hour.run(values as unknown[]);
  }

  #isWritten(seq: number): boolean {
    return this.#hasRow.get([seq]) !== undefined;
  }

  #writeRow(row: RequestRow, hours: HourSums): void {
    if (this.#usual.write(row)) {
      hours.add(row, row.attempts[0], true);
      return;
    }
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
      milliseconds(row.firstByteMs),
      milliseconds(row.totalMs),
      row.saved,
      row.savedBy,
      row.notes,
      cost,
      attempts.length,
      row.maxTokens ?? null,
      row.numAnswers ?? null,
      row.endUser,
    ]);
    for (const [i, attempt] of attempts.entries()) {
      this.#attempt.run(attemptValues(seq, i, attempt));
      hours.add(row, attempt, i === attempts.length - 1);
    }
    if (attempts.length === 0) hours.add(row, undefined, true);
  }

  #keep({ row, tries }: Unwritten, thrown: unknown): void {
    this.#notes.undone(row.seq);
    if (this.#refused.length >= MAX_UNWRITTEN || tries >= MAX_TRIES) {
      this.#numDropped++;
      this.#notes.forget(row.seq);
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
    milliseconds(attempt.startMs),
    milliseconds(attempt.firstByteMs),
    milliseconds(attempt.totalMs),
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

function firstValue(statement: Statement, values: readonly number[] = []): number | undefined {
  return (statement.get(values) as { readonly value: number | null }).value ?? undefined;
}
