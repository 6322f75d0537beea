/**
 * The figures of the last hour, day and week, each at its own resolution, in memory of a fixed size and, if asked, in a file of a fixed size. A figure
 * has its place by its time, so the newest takes the place of the oldest, and a file needs no index.
 */
import { closeSync, constants, fstatSync, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { tryFileLock } from "../../core/file-lock.js";
import { type Load, loadBetween, type Reading } from "./load.js";

interface Window {
  readonly everyMs: number;
  readonly count: number;
}

const WINDOWS = {
  hour: { everyMs: 10_000, count: 360 },
  day: { everyMs: 120_000, count: 720 },
  week: { everyMs: 900_000, count: 672 },
} as const satisfies Readonly<Record<string, Window>>;

export type WindowName = keyof typeof WINDOWS;
export const WINDOW_NAMES = Object.keys(WINDOWS) as readonly WindowName[];

/** How often a reading is needed. */
export const EVERY_MS = WINDOWS.hour.everyMs;

const NUMBERS = [
  "atMs",
  "tokensInPerS",
  "tokensOutPerS",
  "requestsPerS",
  "refusedPerS",
  "running",
  "waiting",
  "kvUse",
  "prefixHits",
  "acceptance",
  "hostShare",
  "preemptionsPerS",
  "savedPerS",
] as const satisfies readonly (keyof Load)[];
const QUANTILES = ["ttft", "tpot", "queue"] as const satisfies readonly (keyof Load)[];
const SHARES = ["p50", "p95", "p99"] as const;
/** Of a load: its numbers, then its quantiles; NaN stands for a figure that is not known. */
const ROW = NUMBERS.length + QUANTILES.length * SHARES.length;
const ROW_BYTES = ROW * 8;

const MAGIC = Buffer.from("millrace history, version 1\n".padEnd(32));
const NUM_ROWS = WINDOW_NAMES.reduce((sum, name) => sum + WINDOWS[name].count, 0);
const FILE_BYTES = MAGIC.length + NUM_ROWS * ROW_BYTES;

/** Figures of a moment: an interval has the largest of its readings. */
const GAUGES = ["running", "waiting", "kvUse"] as const satisfies readonly (keyof Reading & keyof Load)[];
type Peaks = Readonly<Partial<Record<(typeof GAUGES)[number], number>>>;

interface Slots extends Window {
  /** Of its first row. */
  readonly start: number;
  /** The latest reading that ended an interval, and the interval's number. */
  latest: { readonly reading: Reading; readonly slot: number } | undefined;
  /** Of the interval that has not ended. */
  peaks: Peaks;
}

export class History {
  readonly #rows = new Float64Array(NUM_ROWS * ROW);
  readonly #slots: ReadonlyMap<WindowName, Slots>;
  #file: number | undefined;
  #unlock: (() => void) | undefined;
  #hasProblem = false;

  /**
   * @param path of a new file, or one of an earlier run; undefined: memory only
   * @param onProblem called once for each time in which the file cannot be written, and where another server has it: the figures are in memory then
   * @param isOurs whether a lock that this server has covers the file
   * @throws invalid_option
   */
  constructor(
    path?: string,
    private readonly onProblem: (text: string) => void = () => {},
    isOurs = false,
  ) {
    let start = 0;
    this.#slots = new Map(
      WINDOW_NAMES.map((name) => {
        const slots: Slots = { ...WINDOWS[name], start, latest: undefined, peaks: {} };
        start += slots.count;
        return [name, slots];
      }),
    );
    if (path === undefined) return;
    this.#unlock = isOurs ? () => {} : lockFor(path);
    if (this.#unlock === undefined) {
      onProblem(
        `another server has the history ${path}: this one's is kept in memory; give each server a file of its own`,
      );
      return;
    }
    try {
      this.#file = openHistory(path, this.#rows);
    } catch (thrown) {
      this.#unlock();
      throw thrown;
    }
  }

  add(reading: Reading): void {
    for (const slots of this.#slots.values()) {
      const slot = Math.floor(reading.atMs / slots.everyMs);
      const { latest } = slots;
      slots.peaks = higher(slots.peaks, reading);
      if (latest !== undefined && slot <= latest.slot && reading.atMs >= latest.reading.atMs) continue;
      slots.latest = { reading, slot };
      const { peaks } = slots;
      slots.peaks = {};
      // The first reading begins an interval, and so does one after the clock was set back.
      if (latest === undefined || slot <= latest.slot) continue;
      this.#put(slots.start + (slot % slots.count), { ...loadBetween(latest.reading, reading), ...peaks });
    }
  }

  /** Oldest first. */
  read(name: WindowName, nowMs: number): readonly Load[] {
    const { start, count, everyMs } = this.#slots.get(name)!;
    const since = nowMs - count * everyMs;
    return Array.from({ length: count }, (_, i) => this.#rows.subarray((start + i) * ROW, (start + i + 1) * ROW))
      .filter(([atMs]) => atMs! > since && atMs! <= nowMs)
      .map(loadOf)
      .sort((a, b) => a.atMs - b.atMs);
  }

  /** Of the newest figure; 0: there is none. */
  newestMs(): number {
    let newest = 0;
    for (let at = 0; at < this.#rows.length; at += ROW) newest = Math.max(newest, this.#rows[at]!);
    return newest;
  }

  everyMs(name: WindowName): number {
    return WINDOWS[name].everyMs;
  }

  /** From the oldest figure to the newest. */
  lengthMs(name: WindowName): number {
    return WINDOWS[name].everyMs * WINDOWS[name].count;
  }

  /** Whether this server alone writes the file. */
  get isKept(): boolean {
    return this.#file !== undefined;
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
    this.#unlock?.();
    this.#unlock = undefined;
  }

  #put(row: number, load: Load): void {
    const values = this.#rows.subarray(row * ROW, (row + 1) * ROW);
    values.set(valuesOf(load));
    if (this.#file === undefined) return;
    const bytes = new Uint8Array(values.buffer, values.byteOffset, ROW_BYTES);
    try {
      writeSync(this.#file, bytes, 0, ROW_BYTES, MAGIC.length + row * ROW_BYTES);
      this.#hasProblem = false;
    } catch (thrown) {
      // A full disk must not end the server: the figures stay in memory.
      if (!this.#hasProblem) this.onProblem(`the history was not written: ${(thrown as Error).message}`);
      this.#hasProblem = true;
    }
  }
}

function higher(peaks: Peaks, reading: Reading): Peaks {
  const known = GAUGES.flatMap((name) => (reading[name] === undefined ? [] : [[name, reading[name]] as const]));
  return { ...peaks, ...Object.fromEntries(known.map(([name, value]) => [name, Math.max(value, peaks[name] ?? 0)])) };
}

const valuesOf = (load: Load): number[] => [
  ...NUMBERS.map((name) => load[name] ?? Number.NaN),
  ...QUANTILES.flatMap((name) => SHARES.map((share) => load[name][share] ?? Number.NaN)),
];

function loadOf(values: Float64Array): Load {
  const known = (at: number): number | undefined => (Number.isNaN(values[at]!) ? undefined : values[at]);
  const quantiles = QUANTILES.map((name, i) => {
    const first = NUMBERS.length + i * SHARES.length;
    return [name, Object.fromEntries(SHARES.map((share, j) => [share, known(first + j)]))];
  });
  const numbers = NUMBERS.map((name, at) => [name, known(at)]);
  return Object.fromEntries([...numbers, ...quantiles]) as Load;
}

/** @returns what gives the file to the next server; undefined: another server has it */
function lockFor(path: string): (() => void) | undefined {
  try {
    return tryFileLock(`${path}.lock`);
  } catch (thrown) {
    throw cannotBe(path, thrown);
  }
}

function cannotBe(path: string, cause: unknown): MillraceError {
  const { message } = cause as Error;
  return new MillraceError("invalid_option", `expected a new file or an earlier history at ${path}, got ${message}`, {
    hint: "name a file that only this server has",
    cause,
  });
}

/** @param rows filled with the file's @returns the open file */
function openHistory(path: string, rows: Float64Array): number {
  let file: number | undefined;
  try {
    mkdirSync(dirname(path), { recursive: true });
    file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    const stat = fstatSync(file);
    const magic = Buffer.alloc(MAGIC.length);
    const numRead = stat.isFile() ? readSync(file, magic, 0, MAGIC.length, 0) : 0;
    const isOurs = stat.isFile() && magic.subarray(0, numRead).equals(MAGIC.subarray(0, numRead));
    if (!isOurs || stat.size > FILE_BYTES || numRead < Math.min(stat.size, MAGIC.length))
      throw new Error("other content");
    // New, or left short by a process that ended while it made the file: the rows that are missing become zeros, of no time.
    if (stat.size < FILE_BYTES) {
      writeSync(file, MAGIC, 0, MAGIC.length, 0);
      ftruncateSync(file, FILE_BYTES);
    }
    if (stat.size > MAGIC.length) readSync(file, new Uint8Array(rows.buffer), 0, rows.byteLength, MAGIC.length);
    return file;
  } catch (thrown) {
    if (file !== undefined) closeSync(file);
    throw cannotBe(path, thrown);
  }
}
