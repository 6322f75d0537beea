/**
 * Watches every series of verdicts for drift: each check of each model, and of each tenant of a model. The expected number of false alarms is bounded over all
 * of them together: a detector with the threshold c raises at most one in c samples, so all samples of a time span count, and the number of series does not.
 */
import type { RequestLogger } from "../../core/request-logger.js";
import type { AlertStore } from "../alerts/alert-store.js";
import type { Database } from "../store/database.js";
import { groupCommitOf } from "../store/group-commit.js";
import { addToSeries, type Drift, expectedOf, isLearned, newSeries, type SeriesState } from "./drift-series.js";
import { DAY_MS } from "./quality-store.js";

interface DriftOptions {
  readonly database: Database.Database;
  readonly logger: RequestLogger;
  /** Days in which at most one false alarm is expected, over all series together. */
  readonly quietDays: number;
  /** Absent: drift is logged and shown, and no alert is stored. */
  readonly alerts:
    | { readonly store: AlertStore; readonly coolDownMs: number; readonly hasWebhook: boolean }
    | undefined;
}

export interface Judgement {
  readonly atMs: number;
  readonly model: string;
  readonly tenant: string;
  /** Of a check, or "feedback". */
  readonly name: string;
  readonly badness: number;
  /** Drawn by the plain share: only such samples of different tenants are alike. */
  readonly isPlain: boolean;
}

interface Change {
  readonly atMs: number;
  readonly version: string;
  readonly before: string;
}

export interface FoundDrift extends Drift {
  readonly atMs: number;
  readonly change: Change | undefined;
}

interface Series {
  readonly model: string;
  /** "": all tenants together. */
  readonly tenant: string;
  readonly name: string;
  state: SeriesState;
  last: FoundDrift | undefined;
  /** Samples since the last drift was found. */
  numSince: number;
}

export interface SeriesReport {
  readonly model: string;
  readonly tenant: string;
  readonly name: string;
  readonly isLearned: boolean;
  readonly expected: number;
  readonly drift: FoundDrift | undefined;
}

const MAX_SERIES = 5000;
/** Samples of a day that the threshold counts with at least. */
const MIN_PER_DAY = 1000;
const SAVE_MS = 1000;
/** Series that are saved at once, so that no transaction is long. */
const SAVED_AT_ONCE = 200;
const MAX_CHANGES = 1000;
/** Days whose number of judgements is kept, so that a restart knows how many to expect. */
const KEPT_RATES = 100;
/** A drift is over when it has not been found again in so many times the samples that it took. */
const OVER_AFTER = 5;
/** A change is named as the occasion of a drift that began within so much time after it. */
const OCCASION_MS = DAY_MS;

const TABLES = `
  CREATE TABLE IF NOT EXISTS quality_series (
    model TEXT, tenant TEXT, name TEXT, state TEXT, last TEXT, PRIMARY KEY (model, tenant, name)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS quality_rate (day INTEGER PRIMARY KEY, judgements INTEGER);
  CREATE TABLE IF NOT EXISTS quality_changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER, model TEXT, version TEXT, before TEXT)`;

export class DriftWatch {
  readonly #series = new Map<string, Series>();
  /** Series that have changed since they were saved. */
  readonly #dirty = new Set<Series>();
  /** The version that each model was last seen with. */
  readonly #versions = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  /** Judgements of this day, and of the last one that had some. */
  #day = { number: -1, count: 0, before: 0 };

  constructor(private readonly options: DriftOptions) {
    const { database } = options;
    database.exec(TABLES);
    this.#load();
    this.#timer = setInterval(() => this.#save(SAVED_AT_ONCE), SAVE_MS).unref();
  }

  /** Notes which version of a model answers. @param version "": unknown */
  seen(model: string, version: string, atMs: number): void {
    const before = this.#versions.get(model);
    if (version === "" || before === version) return;
    this.#versions.set(model, version);
    const { database } = this.options;
    database.prepare("INSERT INTO quality_changes VALUES (NULL, ?, ?, ?, ?)").run([atMs, model, version, before ?? ""]);
    database
      .prepare("DELETE FROM quality_changes WHERE seq <= (SELECT max(seq) FROM quality_changes) - ?")
      .run(MAX_CHANGES);
  }

  /** @returns the drifts that this judgement has brought to light */
  add(judgement: Judgement): readonly FoundDrift[] {
    const { atMs, model, tenant, name, badness, isPlain } = judgement;
    const threshold = this.#threshold(atMs);
    const tenants = [...(isPlain ? [""] : []), ...(tenant === "" ? [] : [tenant])];
    return tenants.flatMap((each) => {
      const series = this.#of(model, each, name);
      const drift = series && addToSeries(series.state, badness, atMs, threshold);
      if (series === undefined) return [];
      this.#dirty.add(series);
      series.numSince++;
      if (series.last !== undefined && series.numSince > OVER_AFTER * series.last.count) series.last = undefined;
      if (drift === undefined) return [];
      series.numSince = 0;
      series.last = { ...drift, atMs, change: this.#occasion(model, drift.sinceMs, atMs) };
      this.#tell(series, series.last);
      return [series.last];
    });
  }

  /** What was changed, from the newest on. */
  changes(atMost: number): readonly (Change & { readonly model: string })[] {
    const sql = "SELECT at_ms AS atMs, model, version, before FROM quality_changes ORDER BY seq DESC LIMIT ?";
    return this.options.database.prepare(sql).all([atMost]) as (Change & { model: string })[];
  }

  /** Series whose drift lasts. */
  drifted(): readonly { readonly model: string; readonly name: string }[] {
    return [...this.#series.values()].filter(({ last }) => last !== undefined);
  }

  report(nowMs: number): readonly SeriesReport[] {
    return [...this.#series.values()].map(({ model, tenant, name, state, last }) => {
      return { model, tenant, name, isLearned: isLearned(state, nowMs), expected: expectedOf(state), drift: last };
    });
  }

  /** Forgets what series were, so that they learn what they are. @returns how many */
  accept(model: string | undefined, name: string | undefined): number {
    const accepted = [...this.#series.values()].filter(
      (series) => (model ?? series.model) === series.model && (name ?? series.name) === series.name,
    );
    for (const series of accepted) {
      series.state = newSeries();
      series.last = undefined;
      this.#dirty.add(series);
    }
    return accepted.length;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#save(MAX_SERIES);
  }

  #threshold(atMs: number): number {
    const number = Math.floor(atMs / DAY_MS);
    if (number !== this.#day.number) {
      this.#day = { number, count: 0, before: this.#day.count };
    }
    // A judgement belongs to two series: its model's and its tenant's.
    this.#day.count += 2;
    return this.options.quietDays * Math.max(this.#day.count, this.#day.before, MIN_PER_DAY);
  }

  #of(model: string, tenant: string, name: string): Series | undefined {
    const key = JSON.stringify([model, tenant, name]);
    const known = this.#series.get(key);
    if (known !== undefined || this.#series.size >= MAX_SERIES) return known;
    const made = { model, tenant, name, state: newSeries(), last: undefined, numSince: 0 };
    this.#series.set(key, made);
    return made;
  }

  /** The change of the model that is nearest to the beginning of a drift, if there is one near it. */
  #occasion(model: string, sinceMs: number, atMs: number): Change | undefined {
    const sql = `SELECT at_ms AS atMs, version, before FROM quality_changes WHERE model = ? AND before != '' AND at_ms BETWEEN ? AND ?
      ORDER BY abs(at_ms - ?) LIMIT 1`;
    const row = this.options.database.prepare(sql).get([model, sinceMs - OCCASION_MS, atMs, sinceMs]);
    return row as Change | undefined;
  }

  #tell({ model, tenant, name }: Series, { atMs, sinceMs, mean, count, expected, change }: FoundDrift): void {
    const { alerts, logger } = this.options;
    const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
    const time = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16)}Z`;
    const whose = tenant === "" ? model : `${model} for ${tenant}`;
    const occasion =
      change === undefined ? "no change of the model is known" : `${model} changed at ${time(change.atMs)}`;
    const text = `${whose}: ${name} is ${percent(mean)} in ${count} samples since ${time(sinceMs)}, ${percent(expected)} before; ${occasion}`;
    logger.warn({ model, tenant, check: name, value: mean, expected, since: time(sinceMs) }, text);
    const id = `quality_${name} ${whose} ${time(atMs)}`;
    const metric = `quality_${name}`;
    const alert = {
      id,
      metric,
      value: mean,
      expected,
      foundMs: atMs,
      hourMs: atMs - (atMs % 3_600_000),
      tenant,
      key: "",
      model,
      text,
    };
    alerts?.store.add(alert, alerts.coolDownMs, alerts.hasWebhook);
  }

  #load(): void {
    const { database } = this.options;
    const rows = database.prepare("SELECT * FROM quality_series LIMIT ?").all([MAX_SERIES]) as {
      readonly model: string;
      readonly tenant: string;
      readonly name: string;
      readonly state: string;
      readonly last: string | null;
    }[];
    for (const { model, tenant, name, state, last } of rows) {
      const series = {
        model,
        tenant,
        name,
        state: JSON.parse(state) as SeriesState,
        last: last === null ? undefined : (JSON.parse(last) as FoundDrift),
        numSince: 0,
      };
      this.#series.set(JSON.stringify([model, tenant, name]), series);
    }
    const days = database.prepare("SELECT day, judgements FROM quality_rate ORDER BY day DESC LIMIT 2").all([]);
    const [today, before] = days as { readonly day: number; readonly judgements: number }[];
    if (today !== undefined) {
      this.#day = { number: today.day, count: today.judgements, before: before?.judgements ?? 0 };
    }
    const versions = database.prepare("SELECT model, version FROM quality_changes ORDER BY seq").all([]);
    for (const { model, version } of versions as { model: string; version: string }[])
      this.#versions.set(model, version);
  }

  #save(atMost: number): void {
    const dirty = [...this.#dirty].slice(0, atMost);
    if (dirty.length === 0) return;
    const { database, logger } = this.options;
    const write = database.prepare("INSERT OR REPLACE INTO quality_series VALUES (?, ?, ?, ?, ?)");
    try {
      groupCommitOf(database).alone(() => {
        const { number, count } = this.#day;
        database.prepare("INSERT OR REPLACE INTO quality_rate VALUES (?, ?)").run([number, count]);
        database.prepare("DELETE FROM quality_rate WHERE day < ?").run([number - KEPT_RATES]);
        for (const { model, tenant, name, state, last } of dirty) {
          write.run([model, tenant, name, JSON.stringify(state), last === undefined ? null : JSON.stringify(last)]);
        }
      });
      for (const series of dirty) this.#dirty.delete(series);
    } catch (thrown) {
      logger.error({ err: thrown }, "what the quality checks know could not be saved");
    }
  }
}
