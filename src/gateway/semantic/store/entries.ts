/**
 * The stored questions and answers of one model: vectors in memory, everything else in the gateway's database. Bounded
 * in number, bytes and time.
 */
import { createHash, randomBytes } from "node:crypto";
import type Database from "libsql";
import { bytesOf, decodeAnswer, encodeAnswer, type StoredAnswer } from "../../cache/stored-answer.js";
import type { GroupCommit } from "../../store/group-commit.js";
import { type Match, unitVector, VectorIndex } from "../index/vector-index.js";
import { WordCounts } from "../index/word-counts.js";
import { type Question, questionOf } from "../text/question.js";

export interface Entry {
  readonly question: string;
  readonly text: string;
  readonly answer: StoredAnswer;
}

interface NewEntry extends Entry {
  readonly namespace: string;
  /** A unit vector. */
  readonly vector: Float32Array;
}

interface EntryLimits {
  readonly maxEntries: number;
  readonly maxBytes: number;
}

/** Rows that are read in one turn of the event loop when the store opens. */
const ROWS_PER_TURN = 200;

/**
 * Texts are blobs, since libsql cuts a text at a NUL; values go in one list, since libsql takes a single object for
 * named values.
 */
export class Entries {
  readonly #index = new VectorIndex();
  readonly #words = new WordCounts();
  /** The last entry of each form in each namespace. */
  readonly #forms = new Map<string, string>();
  /** Bytes of each entry, in the order of arrival. */
  readonly #bytes = new Map<string, number>();
  #numBytes = 0;
  #isClosed = false;
  readonly #insert;
  readonly #get;
  readonly #delete;
  /** Settles when the entries of an earlier process are known. Until then, fewer entries are found. */
  readonly opened: Promise<void>;

  constructor(
    private readonly database: Database.Database,
    private readonly commits: GroupCommit,
    private readonly model: string,
    private readonly limits: EntryLimits,
    private readonly now: () => number = Date.now,
  ) {
    database.exec(
      `CREATE TABLE IF NOT EXISTS cache_semantic (id TEXT PRIMARY KEY, model BLOB NOT NULL, namespace TEXT NOT NULL, tenant BLOB NOT NULL,
        question BLOB NOT NULL, vector BLOB NOT NULL, text BLOB NOT NULL, answer BLOB NOT NULL, expires_ms INTEGER NOT NULL)`,
    );
    database.exec("CREATE INDEX IF NOT EXISTS cache_semantic_model ON cache_semantic (model)");
    this.#insert = database.prepare(
      `INSERT INTO cache_semantic (id, model, namespace, tenant, question, vector, text, answer, expires_ms)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#get = database.prepare("SELECT tenant, namespace, question, text, answer FROM cache_semantic WHERE id = ?");
    this.#delete = database.prepare("DELETE FROM cache_semantic WHERE id = ?");
    this.opened = this.#open();
  }

  get size(): number {
    return this.#index.size;
  }

  get numBytes(): number {
    return this.#numBytes;
  }

  readonly rarity = (word: string): number => this.#words.rarity(word);

  has(namespace: string): boolean {
    return this.#index.has(namespace);
  }

  /**
   * Candidates for a question: the entry of the same form, if there is one, then the nearest. With prompts from a
   * template, hundreds may be as near as the right one.
   */
  async candidates(namespace: string, question: Question, vector: Float32Array, limit: number, atLeast: number) {
    const nearest = await this.#index.nearest(namespace, vector, limit, atLeast);
    const id = this.#forms.get(formKey(namespace, question)) ?? "";
    const similarity = this.#index.similarity(id, vector);
    if (similarity === undefined || similarity < atLeast) return nearest;
    return [{ id, similarity }, ...nearest.filter((match) => match.id !== id)] satisfies readonly Match[];
  }

  /** @returns undefined if the entry is gone, has expired or is another tenant's */
  get(id: string, tenant: string): Entry | undefined {
    if (!this.#bytes.has(id)) return undefined;
    const row = this.#get.get([id]) as Record<"tenant" | "question" | "text" | "answer", Buffer> | undefined;
    if (row === undefined || textOf(row.tenant) !== tenant) return undefined;
    const answer = decodeAnswer(Buffer.from(row.answer));
    if (answer === undefined || answer.expiresMs <= this.now() || answer.tenant !== tenant) return undefined;
    return { question: textOf(row.question), text: textOf(row.text), answer };
  }

  /** @returns the entry's id; rejects if the database fails */
  async add(entry: NewEntry): Promise<string> {
    const id = randomBytes(16).toString("hex");
    const { namespace, vector, question, text, answer } = entry;
    const bytes = bytesOf(answer) + vector.byteLength + 2 * question.length + 2 * text.length;
    const vectorBytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
    await this.commits.run(() =>
      this.#insert.run([
        id,
        Buffer.from(this.model),
        namespace,
        Buffer.from(answer.tenant),
        Buffer.from(question),
        vectorBytes,
        Buffer.from(text),
        encodeAnswer(answer),
        answer.expiresMs,
      ]),
    );
    if (this.#isClosed) return id;
    this.#know(id, namespace, vector, question, bytes);
    await this.#makeRoom();
    return id;
  }

  /** @returns whether the entry existed, and was the tenant's */
  async delete(id: string, tenant?: string): Promise<boolean> {
    if (!this.#bytes.has(id) || this.#isClosed) return false;
    const row = this.#get.get([id]) as (Record<"tenant" | "question", Buffer> & { namespace: string }) | undefined;
    if (row !== undefined && tenant !== undefined && textOf(row.tenant) !== tenant) return false;
    this.#forget(id, row?.namespace ?? "", row === undefined ? "" : textOf(row.question));
    await this.commits.run(() => this.#delete.run([id]));
    return true;
  }

  close(): void {
    this.#isClosed = true;
  }

  async #makeRoom(): Promise<void> {
    const { maxEntries, maxBytes } = this.limits;
    while (this.#index.size > 0 && (this.#index.size > maxEntries || this.#numBytes > maxBytes)) {
      const oldest = this.#index.oldest()!;
      await this.delete(oldest);
      if (this.#isClosed) return;
    }
  }

  #know(id: string, namespace: string, vector: Float32Array, question: string, bytes: number): void {
    this.#index.add(id, namespace, vector);
    const read = questionOf(question);
    this.#words.add(read.words);
    this.#forms.set(formKey(namespace, read), id);
    this.#bytes.set(id, bytes);
    this.#numBytes += bytes;
  }

  #forget(id: string, namespace: string, question: string): void {
    this.#index.delete(id);
    const read = questionOf(question);
    this.#words.remove(read.words);
    const key = formKey(namespace, read);
    if (this.#forms.get(key) === id) this.#forms.delete(key);
    this.#numBytes -= this.#bytes.get(id) ?? 0;
    this.#bytes.delete(id);
  }

  async #open(): Promise<void> {
    const model = Buffer.from(this.model);
    this.database.prepare("DELETE FROM cache_semantic WHERE model = ? AND expires_ms <= ?").run([model, this.now()]);
    const page = this.database.prepare(
      `SELECT rowid AS place, id, namespace, question, vector, length(answer) + length(text) + 512 AS bytes FROM cache_semantic
        WHERE model = ? AND rowid > ? ORDER BY rowid LIMIT ${ROWS_PER_TURN}`,
    );
    for (let last = 0; !this.#isClosed; ) {
      const rows = page.all([model, last]) as Row[];
      for (const { id, namespace, question, vector, bytes } of rows) {
        // libsql returns the blobs of several rows as ArrayBuffers whose bytes are not aligned for floats.
        const values = new Float32Array(new Uint8Array(vector).slice().buffer);
        const unit = this.#bytes.has(id) ? undefined : unitVector(values);
        if (unit !== undefined) this.#know(id, namespace, unit, textOf(question), bytes + vector.byteLength);
      }
      const end = rows.at(-1);
      if (end === undefined) break;
      last = end.place;
      await new Promise((resolve) => setImmediate(resolve));
    }
    await this.#makeRoom();
  }
}

interface Row {
  readonly place: number;
  readonly id: string;
  readonly namespace: string;
  readonly question: Buffer;
  readonly vector: Buffer;
  readonly bytes: number;
}

function formKey(namespace: string, { form, language }: Question): string {
  const { kind, cues, parts } = form;
  const facts = [namespace, language ?? "", kind, cues, parts.map(({ text }) => text)];
  return createHash("sha256").update(JSON.stringify(facts)).digest("base64");
}

const textOf = (blob: Buffer | ArrayBuffer): string => Buffer.from(blob as ArrayBuffer).toString();
