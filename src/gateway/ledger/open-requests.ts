/**
 * Notes of the running requests, which show after kill -9 which requests were lost. A note holds all requests that
 * begin with one transaction: requests that come together mostly end together. It is deleted with the row of its last
 * request; until then, the others' rows show that they have ended.
 */
import type { Database, Statement } from "../store/database.js";
import type { OpenRequest } from "./ledger-rows.js";

const SCHEMA = "CREATE TABLE IF NOT EXISTS ledger_notes (last_seq INTEGER PRIMARY KEY, requests TEXT NOT NULL)";

interface Note {
  readonly lastSeq: number;
  /** Requests under this note in the database, in the order of their positions. */
  members: readonly OpenRequest[];
  /** Positions of requests whose rows are committed. */
  readonly ended: Set<number>;
  /** Positions of requests whose rows are in the running transaction. */
  readonly ending: Set<number>;
}

type Fields = readonly [number, string, number, string, string, string, string, string, boolean];

export class OpenRequests {
  /** Notes by the position of the request, in the order of the requests' beginning. */
  readonly #notes = new Map<number, Note>();
  readonly #put: Statement;
  readonly #remove: Statement;
  readonly #newest: Statement;

  constructor(private readonly database: Database.Database) {
    database.exec(SCHEMA);
    this.#put = database.prepare("INSERT OR REPLACE INTO ledger_notes VALUES (?, ?)");
    this.#remove = database.prepare("DELETE FROM ledger_notes WHERE last_seq = ?");
    this.#newest = database.prepare("SELECT max(last_seq) AS seq FROM ledger_notes");
    this.#takeOver();
  }

  /** Position of the newest request that has a note. */
  newestSeq(): number | undefined {
    return (this.#newest.get([]) as { readonly seq: number | null }).seq ?? undefined;
  }

  /** Call in a transaction. @param requests in the order of their positions */
  begin(requests: readonly OpenRequest[]): void {
    if (requests.length === 0) return;
    const note: Note = { lastSeq: requests.at(-1)!.seq, members: requests, ended: new Set(), ending: new Set() };
    for (const { seq } of requests) this.#notes.set(seq, note);
    this.#write(note);
  }

  /**
   * Call in the transaction that writes the request's row; if that transaction is undone, call again in the next one.
   */
  end(seq: number): void {
    const note = this.#notes.get(seq);
    if (note === undefined) return;
    note.ending.add(seq);
    if (note.ended.size + note.ending.size === note.members.length) this.#remove.run([note.lastSeq]);
  }

  /** Call when that transaction is committed. */
  committed(seq: number): void {
    const note = this.#notes.get(seq);
    note?.ending.delete(seq);
    note?.ended.add(seq);
    this.#notes.delete(seq);
  }

  /** Call when that transaction was undone: until the row is written, the note alone records the request. */
  undone(seq: number): void {
    this.#notes.get(seq)?.ending.delete(seq);
  }

  /** Gives the row up: the note stays in the database, and the next start finds the request lost. */
  forget(seq: number): void {
    this.#notes.delete(seq);
  }

  /**
   * Call in the transaction that deletes rows, before it deletes them: ended requests then leave the notes that they
   * share with running ones, or a restart would take them for lost.
   */
  dropRows(upTo: number, hasRow: (seq: number) => boolean): void {
    for (const note of this.#notes.values()) {
      if (note.members[0]!.seq > upTo) break;
      const gone = [...note.ended].filter(hasRow);
      if (gone.length === 0 || gone.length === note.members.length) continue;
      note.members = note.members.filter(({ seq }) => !gone.includes(seq));
      for (const seq of gone) note.ended.delete(seq);
      this.#write(note);
    }
  }

  /**
   * The requests that an earlier process left open; end them like others.
   * @param hasRow whether a request has ended
   */
  left(hasRow: (seq: number) => boolean): readonly OpenRequest[] {
    const rows = this.database.prepare("SELECT last_seq, requests FROM ledger_notes ORDER BY last_seq").all();
    return (rows as { last_seq: number; requests: string }[]).flatMap(({ last_seq: lastSeq, requests }) => {
      const members = requestsOf(requests).filter(({ seq }) => !hasRow(seq));
      const note: Note = { lastSeq, members, ended: new Set(), ending: new Set() };
      for (const { seq } of members) this.#notes.set(seq, note);
      if (members.length === 0) this.#remove.run([lastSeq]);
      return members;
    });
  }

  #write({ lastSeq, members }: Note): void {
    this.#put.run([lastSeq, textOf(members)]);
  }

  /** Earlier versions had a row for each open request. */
  #takeOver(): void {
    const { n } = this.database
      .prepare("SELECT count(*) AS n FROM sqlite_master WHERE name = 'ledger_open'")
      .get([]) as { readonly n: number };
    if (n === 0) return;
    this.database.transaction(() => {
      const rows = this.database.prepare("SELECT * FROM ledger_open ORDER BY seq").raw().all() as unknown[][];
      const old = rows.map(([seq, id, beganMs, tenant, team, key, path, asked, isStream]) =>
        requestOf([seq, id, beganMs, tenant, team, key, path, asked, Boolean(isStream)] as unknown as Fields),
      );
      if (old.length > 0) this.#put.run([old.at(-1)!.seq, textOf(old)]);
      this.database.exec("DROP TABLE ledger_open");
    })();
  }
}

function textOf(requests: readonly OpenRequest[]): string {
  const rows = requests.map(
    ({ seq, id, beganMs, tenant, team, key, path, asked, isStream }): Fields => [
      seq,
      id,
      beganMs,
      tenant,
      team,
      key,
      path,
      asked,
      isStream,
    ],
  );
  return JSON.stringify(rows);
}

const requestsOf = (text: string): OpenRequest[] => (JSON.parse(text) as Fields[]).map(requestOf);

function requestOf([seq, id, beganMs, tenant, team, key, path, asked, isStream]: Fields): OpenRequest {
  return { seq, id, beganMs, tenant, team, key, path, asked, isStream };
}
