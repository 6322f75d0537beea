/**
 * Open reservations in the gateway's database. A row holds those of one turn: requests that come together mostly end
 * together, and a row for each would cost two more statements. A row has the terms that its requests share only once.
 */
import type Database from "libsql";
import type { Held } from "./turn.js";

/** The names of the table and its columns are older than rows with several reservations. */
export const RESERVATIONS_SCHEMA =
  "CREATE TABLE IF NOT EXISTS budget_reservations (id TEXT PRIMARY KEY, held TEXT NOT NULL) WITHOUT ROWID;";

/** Upper bound of the reservations in a row, which is written again when one of them changes. */
const MAX_MEMBERS = 16;

type Terms = Pick<Held, "owner" | "moneyKeys" | "tokenKeys" | "placeKeys">;

interface RowText {
  readonly terms: readonly Terms[];
  /** Id, money, tokens per minute, index of the terms, and tokens of budgets (absent in earlier versions). */
  readonly members: readonly (readonly [string, number, number, number, number?])[];
}

interface Row {
  readonly id: string;
  readonly members: Map<string, Held>;
  isWritten: boolean;
}

export class ReservationRows {
  /** Rows by the ids of their reservations. */
  readonly #rows = new Map<string, Row>();
  readonly #changed = new Set<Row>();
  /** The row that takes new reservations. */
  #open: Row | undefined;
  #numRows = 0;
  readonly #put;
  readonly #remove;

  /** @param prefix of the rows' ids, unique to the process */
  constructor(
    private readonly database: Database.Database,
    private readonly prefix: string,
  ) {
    database.exec(RESERVATIONS_SCHEMA);
    this.#put = database.prepare("INSERT OR REPLACE INTO budget_reservations (id, held) VALUES (?, ?)");
    this.#remove = database.prepare("DELETE FROM budget_reservations WHERE id = ?");
  }

  /** Discards unwritten changes. @returns the reservations of the database */
  load(): readonly Held[] {
    this.#rows.clear();
    this.#changed.clear();
    this.#open = undefined;
    return readRows(this.database).flatMap(({ id, held }) => {
      const row: Row = { id, members: new Map(held.map((each) => [each.id, each])), isWritten: true };
      for (const each of held) this.#rows.set(each.id, row);
      return held;
    });
  }

  /** Queues a new or changed reservation for writing. */
  put(held: Held): void {
    const row = this.#rows.get(held.id) ?? this.#newest();
    this.#rows.set(held.id, row);
    row.members.set(held.id, held);
    this.#changed.add(row);
  }

  remove(id: string): void {
    const row = this.#rows.get(id);
    if (row === undefined) return;
    this.#rows.delete(id);
    row.members.delete(id);
    this.#changed.add(row);
  }

  write(): void {
    this.#open = undefined;
    for (const row of this.#changed) {
      if (row.members.size > 0) this.#put.run([row.id, textOf(row.members.values())]);
      else if (row.isWritten) this.#remove.run([row.id]);
      row.isWritten = true;
    }
    this.#changed.clear();
  }

  #newest(): Row {
    if (this.#open === undefined || this.#open.members.size >= MAX_MEMBERS) {
      // Ids in order of creation, so that new rows are adjacent.
      const number = String(this.#numRows++).padStart(12, "0");
      this.#open = { id: `${this.prefix}/${number}`, members: new Map(), isWritten: false };
    }
    return this.#open;
  }
}

/** All open reservations in the database. */
export function readReservations(database: Database.Database): readonly Held[] {
  return readRows(database).flatMap(({ held }) => held);
}

function readRows(database: Database.Database): readonly { readonly id: string; readonly held: readonly Held[] }[] {
  const rows = database.prepare("SELECT id, held FROM budget_reservations").all() as { id: string; held: string }[];
  return rows.map(({ id, held }) => ({ id, held: heldOf(held) }));
}

function textOf(members: Iterable<Held>): string {
  const terms: Terms[] = [];
  const texts: [string, number, number, number, number][] = [];
  for (const { id, owner, money, budgetTokens = 0, tokens, moneyKeys, tokenKeys, placeKeys } of members) {
    const its: Terms = { owner, moneyKeys, tokenKeys, placeKeys };
    let place = terms.findIndex((each) => areSame(each, its));
    if (place < 0) place = terms.push(its) - 1;
    texts.push([id, money, tokens, place, budgetTokens]);
  }
  return JSON.stringify({ terms, members: texts } satisfies RowText);
}

/** Requests of the same key have the same lists. */
function areSame(a: Terms, b: Terms): boolean {
  const hasSameOwner = a.owner === b.owner;
  return hasSameOwner && a.moneyKeys === b.moneyKeys && a.tokenKeys === b.tokenKeys && a.placeKeys === b.placeKeys;
}

/** Earlier versions wrote a row for each reservation. */
function heldOf(text: string): readonly Held[] {
  const row = JSON.parse(text) as RowText | Held;
  if (!("members" in row)) return [row];
  return row.members.map(([id, money, tokens, place, budgetTokens]) => {
    return { ...row.terms[place]!, id, money, budgetTokens, tokens };
  });
}
