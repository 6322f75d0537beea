/** Keeps judgements across restarts: a model must earn trust once, not at each start. */
import type Database from "libsql";
import type { GroupCommit } from "../../store/group-commit.js";
import { type Judgement, MAX_JUDGEMENTS } from "../learning/trust.js";

interface Row {
  readonly class: string;
  readonly similarity: number;
  readonly same: number;
  readonly judged_in: Judgement["judgedIn"];
}

export class Judgements {
  readonly #insert;
  readonly #trim;

  constructor(
    private readonly database: Database.Database,
    private readonly commits: GroupCommit,
    /** Hash of everything that judgements depend on: the model, the vectors' model, the rules and the judge. */
    private readonly scope: string,
    private readonly now: () => number = Date.now,
  ) {
    database.exec(
      `CREATE TABLE IF NOT EXISTS cache_semantic_judgement (id INTEGER PRIMARY KEY, scope TEXT NOT NULL, class TEXT NOT NULL,
        similarity REAL NOT NULL, same INTEGER NOT NULL, judged_in TEXT NOT NULL, at_ms INTEGER NOT NULL)`,
    );
    database.exec("CREATE INDEX IF NOT EXISTS cache_semantic_judgement_scope ON cache_semantic_judgement (scope, id)");
    database.exec(
      "CREATE TABLE IF NOT EXISTS cache_semantic_disabled (scope TEXT PRIMARY KEY, at_ms INTEGER NOT NULL)",
    );
    this.#insert = database.prepare(
      "INSERT INTO cache_semantic_judgement (scope, class, similarity, same, judged_in, at_ms) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#trim = database.prepare(
      `DELETE FROM cache_semantic_judgement WHERE scope = ? AND id <=
        (SELECT id FROM cache_semantic_judgement WHERE scope = ? ORDER BY id DESC LIMIT 1 OFFSET ${MAX_JUDGEMENTS})`,
    );
  }

  /** The oldest first. */
  all(): readonly Judgement[] {
    const rows = this.database
      .prepare("SELECT class, similarity, same, judged_in FROM cache_semantic_judgement WHERE scope = ? ORDER BY id")
      .all([this.scope]) as Row[];
    return rows.map(({ class: promptClass, similarity, same, judged_in: judgedIn }) => ({
      promptClass,
      similarity,
      isSame: same === 1,
      judgedIn,
    }));
  }

  get isDisabled(): boolean {
    return (
      this.database.prepare("SELECT 1 AS yes FROM cache_semantic_disabled WHERE scope = ?").get([this.scope]) !==
      undefined
    );
  }

  add({ promptClass, similarity, isSame, judgedIn }: Judgement): Promise<unknown> {
    const values = [this.scope, promptClass, similarity, isSame ? 1 : 0, judgedIn, this.now()];
    return this.commits.run(() => {
      this.#insert.run(values);
      this.#trim.run([this.scope, this.scope]);
    });
  }

  disable(): Promise<unknown> {
    const insert = this.database.prepare("INSERT OR IGNORE INTO cache_semantic_disabled (scope, at_ms) VALUES (?, ?)");
    return this.commits.run(() => insert.run([this.scope, this.now()]));
  }

  /** Forgets all judgements: trust must be earned again. */
  reset(): Promise<unknown> {
    const statements = ["cache_semantic_judgement", "cache_semantic_disabled"].map((table) =>
      this.database.prepare(`DELETE FROM ${table} WHERE scope = ?`),
    );
    return this.commits.run(() => statements.map((statement) => statement.run([this.scope])));
  }
}
