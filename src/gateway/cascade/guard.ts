/**
 * Watches a cascade's loss of quality: a random share of its requests goes to both models, which gives an unbiased
 * estimate of the loss, and the cascade closes when the loss passes the bound. The state survives a restart.
 */
import type Database from "libsql";
import { type GroupCommit, groupCommitOf } from "../store/group-commit.js";
import {
  type AlarmState,
  addToAlarm,
  addToMean,
  evidenceOf,
  type MeanEstimate,
  type MeanState,
  meanOf,
  newAlarm,
  newMean,
} from "./confidence.js";

interface GuardTerms {
  /** Largest loss of quality over all requests, above 0 and below 1. */
  readonly maxLoss: number;
  /** While the loss is at most `maxLoss`, the cascade closes once in at least this many sampled requests. */
  readonly alarmEvery: number;
}

/** One request that both models have answered. */
interface Sample {
  readonly requestId: string;
  /** The judge's score of the small model's answer, 0 to 1. */
  readonly score: number;
  /** Whether the cascade would have kept that answer. */
  readonly isKept: boolean;
  /** 1 if the small model's answer is worse than the large one's, 0 if not, or a value between. */
  readonly isWorse: number;
}

export interface GuardReport {
  readonly isOpen: boolean;
  /** When the cascade closed; undefined: it is open. */
  readonly closedAt: string | undefined;
  readonly numSamples: number;
  /** Share of all requests whose answer was worse than the large model's, with its 95 % confidence sequence. */
  readonly loss: MeanEstimate;
  /** The same if every answer of the small model were kept. */
  readonly smallLoss: MeanEstimate;
  readonly keptShare: number;
}

interface State {
  mean: MeanState;
  small: MeanState;
  alarm: AlarmState;
  numKept: number;
}

const ALPHA = 0.05;
/** Older samples are dropped; the sums keep counting them. */
const MAX_ROWS = 20_000;

const newState = (): State => ({ mean: newMean(), small: newMean(), alarm: newAlarm(), numKept: 0 });

export class Guard {
  #state = newState();
  #closedAt: string | undefined;
  readonly #commits: GroupCommit;
  readonly #statements;

  /**
   * @param version names the pair of models and the judge: a change starts a new count, with the cascade open
   */
  constructor(
    database: Database.Database,
    private readonly cascade: string,
    private readonly version: string,
    private readonly terms: GuardTerms,
  ) {
    database.exec(`
      CREATE TABLE IF NOT EXISTS cascade_guards (
        cascade TEXT PRIMARY KEY, version TEXT NOT NULL, state TEXT NOT NULL, closed_at TEXT
      );
      CREATE TABLE IF NOT EXISTS cascade_samples (
        id INTEGER PRIMARY KEY, cascade TEXT NOT NULL, at TEXT NOT NULL, request_id TEXT NOT NULL,
        score REAL NOT NULL, kept INTEGER NOT NULL, worse REAL NOT NULL
      );
      CREATE INDEX IF NOT EXISTS cascade_samples_by_cascade ON cascade_samples (cascade, id);
    `);
    this.#commits = groupCommitOf(database);
    this.#statements = {
      read: database.prepare("SELECT version, state, closed_at FROM cascade_guards WHERE cascade = ?"),
      write: database.prepare(
        `INSERT INTO cascade_guards (cascade, version, state, closed_at) VALUES (?, ?, ?, ?)
         ON CONFLICT (cascade) DO UPDATE SET version = excluded.version, state = excluded.state, closed_at = excluded.closed_at`,
      ),
      add: database.prepare(
        "INSERT INTO cascade_samples (cascade, at, request_id, score, kept, worse) VALUES (?, ?, ?, ?, ?, ?)",
      ),
      forget: database.prepare(
        `DELETE FROM cascade_samples WHERE cascade = ?1 AND id <=
         (SELECT id FROM cascade_samples WHERE cascade = ?1 ORDER BY id DESC LIMIT 1 OFFSET ${MAX_ROWS})`,
      ),
      clear: database.prepare("DELETE FROM cascade_samples WHERE cascade = ?"),
    };
    this.#load();
  }

  get isOpen(): boolean {
    return this.#closedAt === undefined;
  }

  /**
   * Throws if the sample cannot be stored, and then does not count it. @returns whether the sample closes the cascade
   */
  add({ requestId, score, isKept, isWorse }: Sample, now = new Date()): boolean {
    const loss = isKept ? isWorse : 0;
    const state = structuredClone(this.#state);
    const { mean, small, alarm } = state;
    addToMean(mean, loss, ALPHA);
    addToMean(small, isWorse, ALPHA);
    addToAlarm(alarm, loss, this.terms.maxLoss);
    if (isKept) state.numKept++;
    const closes = this.isOpen && evidenceOf(alarm) >= this.terms.alarmEvery;
    this.#enter(state, closes ? now.toISOString() : this.#closedAt, () => {
      this.#statements.add.run(this.cascade, now.toISOString(), requestId, score, Number(isKept), isWorse);
      this.#statements.forget.run(this.cascade);
    });
    return closes;
  }

  /** Opens a closed cascade, with a new count. */
  reopen(): void {
    this.#enter(newState(), undefined, () => this.#statements.clear.run(this.cascade));
  }

  report(): GuardReport {
    const { mean, small, numKept } = this.#state;
    return {
      isOpen: this.isOpen,
      closedAt: this.#closedAt,
      numSamples: mean.count,
      loss: meanOf(mean, ALPHA),
      smallLoss: meanOf(small, ALPHA),
      keptShare: mean.count === 0 ? 0 : numKept / mean.count,
    };
  }

  #load(): void {
    const row = this.#statements.read.get(this.cascade) as
      | { version: string; state: string; closed_at: string | null }
      | undefined;
    if (row === undefined || row.version !== this.version) {
      this.reopen();
      return;
    }
    this.#state = JSON.parse(row.state) as State;
    this.#closedAt = row.closed_at ?? undefined;
  }

  /** The state changes with its row, or not at all: a cascade that has closed stays closed after a restart. */
  #enter(state: State, closedAt: string | undefined, write: () => void): void {
    this.#commits.alone(() => {
      write();
      this.#statements.write.run(this.cascade, this.version, JSON.stringify(state), closedAt ?? null);
    });
    this.#state = state;
    this.#closedAt = closedAt;
  }
}
