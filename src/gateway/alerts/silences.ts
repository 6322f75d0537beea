/** Silences of alerts: an alert that fits one is listed, but not sent. */
import { randomBytes } from "node:crypto";
import { MillraceError } from "../../core/errors.js";
import type { Database } from "../store/database.js";

/** undefined fits everything; "" fits alerts of no tenant, key or model. */
interface Matcher {
  readonly metric?: string | undefined;
  readonly tenant?: string | undefined;
  readonly key?: string | undefined;
  readonly model?: string | undefined;
}

interface NewSilence {
  readonly matcher: Matcher;
  /** Milliseconds since 1970. */
  readonly startsMs: number;
  readonly endsMs: number;
  readonly comment: string;
  readonly author: string;
}

export interface Silence extends NewSilence {
  readonly id: string;
}

interface Columns extends Record<keyof Matcher, string | null> {
  readonly id: string;
  readonly starts_ms: number;
  readonly ends_ms: number;
  readonly comment: string;
  readonly author: string;
}

const MAX_SILENCES = 1000;
/** Time for which ended silences stay listed. */
const KEPT_MS = 30 * 86_400_000;

const NAMES = ["metric", "tenant", "key", "model"] as const;

export class SilenceStore {
  constructor(private readonly database: Database.Database) {
    database.exec(`CREATE TABLE IF NOT EXISTS silences (id TEXT PRIMARY KEY, metric TEXT, tenant TEXT, key TEXT,
      model TEXT, starts_ms INTEGER, ends_ms INTEGER, comment TEXT, author TEXT)`);
  }

  /** Throws invalid_parameter if there are too many silences. */
  add(silence: NewSilence, nowMs: number): Silence {
    const { database } = this;
    const { matcher, startsMs, endsMs, comment, author } = silence;
    database.prepare("DELETE FROM silences WHERE ends_ms < ?").run(nowMs - KEPT_MS);
    const { count } = database.prepare("SELECT count(*) AS count FROM silences").get() as { readonly count: number };
    if (count >= MAX_SILENCES) {
      throw new MillraceError("invalid_parameter", `expected at most ${MAX_SILENCES} silences, got one more`, {
        hint: "let one cover more alerts; a silence is deleted 30 days after its end",
      });
    }
    const id = randomBytes(8).toString("hex");
    database
      .prepare(
        `INSERT INTO silences (id, ${NAMES.join(", ")}, starts_ms, ends_ms, comment, author)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run([id, ...NAMES.map((name) => matcher[name] ?? null), startsMs, endsMs, comment, author]);
    return { id, ...silence };
  }

  /** All silences, ended ones included, those that end last first. */
  all(): Silence[] {
    const rows = this.database.prepare("SELECT * FROM silences ORDER BY ends_ms DESC, id").all() as Columns[];
    return rows.map(({ id, starts_ms: startsMs, ends_ms: endsMs, comment, author, ...names }) => ({
      id,
      matcher: Object.fromEntries(NAMES.flatMap((name) => (names[name] === null ? [] : [[name, names[name]]]))),
      startsMs,
      endsMs,
      comment,
      author,
    }));
  }

  /** @returns whether the silence exists; an ended one stays as it is */
  end(id: string, nowMs: number): boolean {
    const ended = this.database.prepare("UPDATE silences SET ends_ms = min(ends_ms, ?) WHERE id = ?").run(nowMs, id);
    return ended.changes > 0;
  }

  /** @returns the id of a silence that fits the alert at the time; undefined: none */
  idFor(alert: Required<Matcher>, atMs: number): string | undefined {
    const fits = NAMES.map((name) => `(${name} IS NULL OR ${name} = ?)`).join(" AND ");
    const sql = `SELECT id FROM silences WHERE starts_ms <= ? AND ends_ms > ? AND ${fits} LIMIT 1`;
    const row = this.database.prepare(sql).get([atMs, atMs, ...NAMES.map((name) => alert[name])]);
    return (row as Pick<Columns, "id"> | undefined)?.id;
  }
}
