/**
 * Watches every series of verdicts for drift: each check of each model, and of each tenant of a model. The expected
 * number of false alarms is bounded over all series together: a detector with the threshold c raises at most one in c
 * samples, so the number of samples in a time span counts, and the number of series does not.
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
  /** Days with at most one expected false alarm, over all series together. */
  readonly quietDays: number;
  /** A series without a sample for this many days is forgotten. */
  readonly keepDays: number;
  /** Absent: drift is logged and shown, and no alert is stored. */
  readonly alerts:
    | { readonly store: AlertStore; readonly coolDownMs: number; readonly numReceivers: number }
    | undefined;
}

export interface Judgement {
  readonly atMs: number;
  readonly model: string;
  readonly tenant: string;
  /** Name of a check, or "feedback". */
  readonly name: string;
  readonly badness: number;
  /** Drawn by the plain share: only such samples compare between tenants. */
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
  /** Time of the last sample. */
  atMs: number;
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
/** The least time between two searches for series without samples. */
const SWEEP_MS = 3_600_000;
/** Lower bound of the samples a day for the threshold. */
const MIN_PER_DAY = 1000;
const SAVE_MS = 1000;
/** Series that are saved at once, so that no transaction is long. */
const SAVED_AT_ONCE = 200;
const MAX_CHANGES = 1000;
/** Days for which the number of judgements is kept, so that a restart knows how many to expect. */
const KEPT_RATES = 100;
/** A drift is over when it is not found again within this multiple of the samples that its detection took. */
const OVER_AFTER = 5;
/** A change of the model up to this long before a drift began may be named as its occasion. */
const OCCASION_MS = DAY_MS;

const TABLES = `
  CREATE TABLE IF NOT EXISTS quality_series (
    model TEXT, tenant TEXT, name TEXT, state TEXT, last TEXT, at_ms INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (model, tenant, name)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS quality_rate (day INTEGER PRIMARY KEY, judgements INTEGER);
  CREATE TABLE IF NOT EXISTS quality_changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER, model TEXT, version TEXT, before TEXT)`;

const keyOf = ({ model, tenant, name }: Pick<Series, "model" | "tenant" | "name">): string =>
  JSON.stringify([model, tenant, name]);

export class DriftWatch {
  /** Series by their keys, the longest without a sample first. */
  readonly #series = new Map<string, Series>();
  /** Series that have changed since they were saved. */
  readonly #dirty = new Set<Series>();
  /** Forgotten series that are still in the database. */
  readonly #gone = new Map<string, Series>();
  #sweptMs = Number.NEGATIVE_INFINITY;
  #hasWarned = false;
  /** The last seen version of each model. */
  readonly #versions = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  /** Judgements of this day, and of the last earlier day with any. */
  #day = { number: -1, count: 0, before: 0 };

  constructor(private readonly options: DriftOptions) {
    const { database } = options;
    database.exec(TABLES);
    // Databases of earlier versions lack the column.
    const columns = database.pragma("table_info(quality_series)") as readonly { readonly name: string }[];
    if (!columns.some(({ name }) => name === "at_ms")) {
      database.exec("ALTER TABLE quality_series ADD COLUMN at_ms INTEGER NOT NULL DEFAULT 0");
    }
    this.#load();
    this.#timer = setInterval(() => this.#save(SAVED_AT_ONCE), SAVE_MS).unref();
  }

  /** Notes the version that answers under a model's name. @param version "": unknown */
  seen(model: string, version: string, atMs: number): void {
    const before = this.#versions.get(model);
    if (version === "" || before === version) return;
    this.#versions.set(model, version);
    const { database } = this.options;
    database
      .prepare("INSERT INTO quality_changes (at_ms, model, version, before) VALUES (?, ?, ?, ?)")
      .run([atMs, model, version, before ?? ""]);
    database
      .prepare("DELETE FROM quality_changes WHERE seq <= (SELECT max(seq) FROM quality_changes) - ?")
      .run(MAX_CHANGES);
  }

  /** @returns the drifts that this judgement reveals */
  add(judgement: Judgement): readonly FoundDrift[] {
    const { atMs, model, tenant, name, badness, isPlain } = judgement;
    const threshold = this.#threshold(atMs);
    this.#sweep(atMs);
    const tenants = [...(isPlain ? [""] : []), ...(tenant === "" ? [] : [tenant])];
    return tenants.flatMap((each) => {
      const series = this.#of({ model, tenant: each, name }, atMs);
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

  /** Changes of the gateway, the newest first. */
  changes(atMost: number): readonly (Change & { readonly model: string })[] {
    const sql = "SELECT at_ms AS atMs, model, version, before FROM quality_changes ORDER BY seq DESC LIMIT ?";
    return this.options.database.prepare(sql).all([atMost]) as (Change & { model: string })[];
  }

  /** Series whose drift lasts. */
  drifted(nowMs: number): readonly { readonly model: string; readonly name: string }[] {
    return [...this.#series.values()].filter((series) => series.last !== undefined && !this.#isStale(series, nowMs));
  }

  report(nowMs: number): readonly SeriesReport[] {
    return [...this.#series.values()].map(({ model, tenant, name, state, last }) => {
      return { model, tenant, name, isLearned: isLearned(state, nowMs), expected: expectedOf(state), drift: last };
    });
  }

  /** Forgets the earlier levels of series, so that they learn the present ones. @returns the number of series */
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

  #of(of: Pick<Series, "model" | "tenant" | "name">, atMs: number): Series | undefined {
    const key = keyOf(of);
    const known = this.#series.get(key);
    if (known === undefined && this.#series.size >= MAX_SERIES && !this.#makeRoom(of.tenant)) return undefined;
    const series = known ?? { ...of, state: newSeries(), atMs, last: undefined, numSince: 0 };
    series.atMs = atMs;
    this.#series.delete(key);
    this.#series.set(key, series);
    this.#gone.delete(key);
    return series;
  }

  /** Forgets the series that is longest without a sample: a tenant's, or, only for a series of all tenants, any. */
  #makeRoom(tenant: string): boolean {
    if (!this.#hasWarned) {
      this.#hasWarned = true;
      const text = `expected at most ${MAX_SERIES} series of models, tenants and checks, got more: those longest without a sample are forgotten`;
      this.options.logger.warn({ atMost: MAX_SERIES }, text);
    }
    const all = [...this.#series.values()];
    const oldest = all.find((series) => series.tenant !== "") ?? (tenant === "" ? all[0] : undefined);
    if (oldest !== undefined) this.#forget(oldest);
    return oldest !== undefined;
  }

  #isStale({ atMs }: Series, nowMs: number): boolean {
    return nowMs - atMs > this.options.keepDays * DAY_MS;
  }

  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptMs < SWEEP_MS) return;
    this.#sweptMs = nowMs;
    for (const series of [...this.#series.values()]) if (this.#isStale(series, nowMs)) this.#forget(series);
  }

  #forget(series: Series): void {
    const key = keyOf(series);
    this.#series.delete(key);
    this.#dirty.delete(series);
    this.#gone.set(key, series);
  }

  /** The change of the model nearest to the beginning of a drift; undefined: none near it. */
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
    alerts?.store.add(alert, alerts.coolDownMs, alerts.numReceivers);
  }

  #load(): void {
    const { database } = this.options;
    const newest = "SELECT * FROM quality_series ORDER BY at_ms DESC LIMIT ?";
    const rows = database.prepare(newest).all([MAX_SERIES]) as {
      readonly model: string;
      readonly tenant: string;
      readonly name: string;
      readonly state: string;
      readonly last: string | null;
      readonly at_ms: number;
    }[];
    for (const { model, tenant, name, state: json, last, at_ms: atMs } of rows.reverse()) {
      const state = JSON.parse(json) as SeriesState;
      const series = {
        model,
        tenant,
        name,
        state,
        // Rows from before the column lack the time: the state began anew at about its last sample.
        atMs: atMs === 0 ? state.recent.sinceMs : atMs,
        last: last === null ? undefined : (JSON.parse(last) as FoundDrift),
        numSince: 0,
      };
      this.#series.set(keyOf(series), series);
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
    const gone = [...this.#gone].slice(0, atMost);
    if (dirty.length + gone.length === 0) return;
    const { database, logger } = this.options;
    const write = database.prepare(
      "INSERT OR REPLACE INTO quality_series (model, tenant, name, state, last, at_ms) VALUES (?, ?, ?, ?, ?, ?)",
    );
    const remove = database.prepare("DELETE FROM quality_series WHERE model = ? AND tenant = ? AND name = ?");
    try {
      groupCommitOf(database).alone(() => {
        const { number, count } = this.#day;
        database.prepare("INSERT OR REPLACE INTO quality_rate (day, judgements) VALUES (?, ?)").run([number, count]);
        database.prepare("DELETE FROM quality_rate WHERE day < ?").run([number - KEPT_RATES]);
        for (const { model, tenant, name, state, last, atMs } of dirty) {
          const found = last === undefined ? null : JSON.stringify(last);
          write.run([model, tenant, name, JSON.stringify(state), found, atMs]);
        }
        for (const [, { model, tenant, name }] of gone) remove.run([model, tenant, name]);
      });
      for (const series of dirty) this.#dirty.delete(series);
      for (const [key] of gone) this.#gone.delete(key);
    } catch (thrown) {
      logger.error({ err: thrown }, "what the quality checks know could not be saved");
    }
  }
}
