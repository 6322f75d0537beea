/**
 * Rows of the usual request: one attempt, nothing saved. The words that it shares with many others are stored once for
 * all, which costs a third of a row with all columns and a row for the attempt.
 */
import type { Database, Statement } from "../store/database.js";
import type { AttemptRow, RequestRow } from "./ledger-rows.js";
import { INSERT_USUAL, insertInto, milliseconds, WORD_COLUMNS } from "./ledger-tables.js";

/**
 * Words are named by the position of their first request, and hold for requests between two multiples of this number,
 * so that they are deleted together with these.
 */
const ERA = 100_000;
/** Number of remembered kinds of words; beyond it, all are forgotten, and requests write them anew. */
const MAX_WORDS = 10_000;

const eraOf = (seq: number): number => seq - (seq % ERA);

export class UsualRows {
  readonly #words: Statement;
  readonly #row: Statement;
  readonly #delete: Statement;
  /** Ids of words by their texts. */
  readonly #ids = new Map<string, number>();
  #era = 0;

  constructor(database: Database.Database) {
    this.#words = database.prepare(insertInto("ledger_words", ["id", ...WORD_COLUMNS], "INSERT OR REPLACE"));
    this.#row = database.prepare(INSERT_USUAL);
    this.#delete = database.prepare("DELETE FROM ledger_words WHERE id < ?");
  }

  /** Call in a transaction. @returns false: the row is not a usual one, and not written */
  write(row: RequestRow): boolean {
    const { seq, attempts, saved, savedBy } = row;
    const attempt = attempts.length === 1 && saved === 0n && savedBy === "" ? attempts[0]! : undefined;
    const counts = attempt?.counts;
    if (attempt === undefined || counts?.drafted !== undefined || counts?.accepted !== undefined) return false;
    if (eraOf(seq) !== this.#era) {
      // A request that ends late has words of the previous era.
      if (seq < this.#era) return false;
      this.#era = eraOf(seq);
      this.#ids.clear();
    }
    this.#row.run([
      seq,
      this.#idOf(row, attempt),
      row.id,
      row.beganMs,
      milliseconds(row.firstByteMs),
      milliseconds(row.totalMs),
      attempt.cost ?? 0,
      row.notes,
      row.maxTokens ?? null,
      row.numAnswers ?? null,
      row.endUser,
      milliseconds(attempt.startMs),
      milliseconds(attempt.firstByteMs),
      milliseconds(attempt.totalMs),
      counts?.fresh ?? null,
      counts?.cacheRead ?? null,
      counts?.cacheWrite ?? null,
      counts?.output ?? null,
      counts?.reasoning ?? null,
    ]);
    return true;
  }

  /** Call when a transaction was undone, since it may have written words. */
  forget(): void {
    this.#ids.clear();
  }

  /** Call in the transaction that deletes the rows up to a position. */
  deleteUpTo(seq: number): void {
    this.#delete.run([eraOf(seq + 1)]);
  }

  #idOf(row: RequestRow, attempt: AttemptRow): number {
    const { tenant, team, key, path, asked, served, outcome, status, error } = row;
    const isStream = row.isStream ? 1 : 0;
    const isEstimated = attempt.counts?.isEstimated === true ? 1 : 0;
    const isPriced = attempt.cost === undefined ? 0 : 1;
    const { instance, engine, model, price } = attempt;
    const ofRequest = `${tenant}\0${team}\0${key}\0${path}\0${asked}\0${isStream}\0${served}\0${outcome}\0${status}\0${error}`;
    const ofAttempt = `${instance}\0${engine}\0${model}\0${attempt.status}\0${attempt.outcome}\0${isEstimated}\0${isPriced}\0${price}`;
    const texts = `${ofRequest}\0${ofAttempt}`;
    const known = this.#ids.get(texts);
    if (known !== undefined) return known;
    if (this.#ids.size >= MAX_WORDS) this.#ids.clear();
    this.#words.run([
      row.seq,
      tenant,
      team,
      key,
      path,
      asked,
      isStream,
      served,
      outcome,
      status,
      error,
      instance,
      engine,
      model,
      attempt.status,
      attempt.outcome,
      isEstimated,
      isPriced,
      price,
    ]);
    this.#ids.set(texts, row.seq);
    return row.seq;
  }
}
