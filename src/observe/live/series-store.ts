/**
 * The histories of a fleet's models and instances, or of its tenants: a fixed number of fixed size, in memory and, if
 * requested, in a folder with a file each.
 */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { History } from "./history.js";
import { type HistoryLayout, SERVER_LAYOUT, TENANT_LAYOUT } from "./history-layout.js";
import { partOf, type Reading } from "./load.js";

/** At 196 kB each (tenants: 105 kB), they take 13 MB together (tenants: 7 MB), in memory and on disk. */
export const MOST_SERIES = 64;
/** A part keeps its place against others for this long after its last reading. */
const UNUSED_MS = 60_000;
/** Limit of a file name's bytes. */
const MOST_NAME = 255;

interface SeriesKind {
  readonly layout: HistoryLayout;
  /** The owner's name in messages. */
  readonly whose: string;
}

const PARTS: SeriesKind = { layout: SERVER_LAYOUT, whose: "models and instances" };
export const TENANTS: SeriesKind = { layout: TENANT_LAYOUT, whose: "tenants" };

interface Series {
  readonly history: History;
  /** Time of the newest reading. */
  readonly latestMs: number;
}

export class SeriesStore {
  readonly #series = new Map<string, Series>();
  readonly #files = new Set<string>();
  #folder: string | undefined;
  #hasProblem = false;

  /**
   * @param folder a folder that no other server writes; undefined: memory only
   * @param onProblem called once if the files are unusable: the figures are then in memory
   */
  constructor(
    folder?: string,
    private readonly onProblem: (text: string) => void = () => {},
    private readonly kind = PARTS,
  ) {
    if (folder === undefined) return;
    this.#folder = folder;
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      this.#openAll(readdirSync(folder).filter((name) => partOf(name) !== undefined));
    } catch (thrown) {
      this.#folder = undefined;
      this.#warn((thrown as Error).message);
    }
  }

  /** @param readings by the parts' keys; beyond the limit, the first ones count */
  add(readings: ReadonlyMap<string, Reading>): void {
    // Known parts first, so that none of them looks unused to a new one.
    const isNew = ([key]: readonly [string, Reading]): number => (this.#series.has(key) ? 0 : 1);
    for (const [key, reading] of [...readings].sort((a, b) => isNew(a) - isNew(b))) {
      const history = this.#series.get(key)?.history ?? this.#begin(key, reading.atMs);
      history?.add(reading);
      if (history !== undefined) this.#series.set(key, { history, latestMs: reading.atMs });
    }
    const nowMs = Math.max(...[...readings.values()].map(({ atMs }) => atMs));
    for (const [key, { history, latestMs }] of this.#series)
      if (nowMs - latestMs > history.lengthMs("week")) this.#forget(key);
  }

  find(key: string): History | undefined {
    return this.#series.get(key)?.history;
  }

  keys(): readonly string[] {
    return [...this.#series.keys()];
  }

  close(): void {
    for (const { history } of this.#series.values()) history.close();
  }

  #openAll(keys: readonly string[]): void {
    for (const key of keys) {
      this.#files.add(key);
      const history = this.#open(key);
      const newestMs = history.newestMs();
      // A time in the future comes from a wrong clock, so it keeps no place.
      this.#series.set(key, { history, latestMs: newestMs > Date.now() ? 0 : newestMs });
      if (this.#series.size > MOST_SERIES) this.#forget(this.#oldest()[0]);
    }
  }

  /** @returns undefined if parts that still exist take all places */
  #begin(key: string, nowMs: number): History | undefined {
    if (this.#series.size >= MOST_SERIES) {
      const [oldest, { latestMs }] = this.#oldest();
      if (Math.abs(nowMs - latestMs) <= UNUSED_MS) return undefined;
      this.#forget(oldest);
    }
    if (this.#folder !== undefined && Buffer.byteLength(key) <= MOST_NAME) this.#files.add(key);
    return this.#open(key);
  }

  #open(key: string): History {
    const inMemory = () => new History(undefined, undefined, true, this.kind.layout);
    if (this.#folder === undefined || !this.#files.has(key)) return inMemory();
    try {
      return new History(join(this.#folder, key), (text) => this.#warn(text), true, this.kind.layout);
    } catch (thrown) {
      this.#files.delete(key);
      this.#warn((thrown as Error).message);
      return inMemory();
    }
  }

  #oldest(): [string, Series] {
    return [...this.#series].reduce((oldest, each) => (each[1].latestMs < oldest[1].latestMs ? each : oldest));
  }

  #forget(key: string): void {
    this.#series.get(key)?.history.close();
    this.#series.delete(key);
    if (this.#files.delete(key)) rmSync(join(this.#folder!, key), { force: true });
  }

  /** Called once for all files, since one disk fails for all of them. */
  #warn(text: string): void {
    if (!this.#hasProblem) this.onProblem(`the history of ${this.kind.whose} is kept in memory: ${text}`);
    this.#hasProblem = true;
  }
}
