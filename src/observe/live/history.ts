/**
 * The figures of the last hour, day and week, each at its own resolution, in memory of a fixed size and, if requested,
 * in
 * a file of a fixed size. A figure's time determines its place, so the newest replaces the oldest, and a file needs no
 * index.
 */
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { tryFileLock } from "../../core/file-lock.js";
import {
  convertedRow,
  earlierRowLength,
  type HistoryLayout,
  loadOf,
  rowLength,
  SERVER_LAYOUT,
  timeOf,
  valuesOf,
} from "./history-layout.js";
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

/** Time between two readings. */
export const EVERY_MS = WINDOWS.hour.everyMs;

const NUM_ROWS = WINDOW_NAMES.reduce((sum, name) => sum + WINDOWS[name].count, 0);
const TITLE_BYTES = 32;

/** Figures of a moment: an interval keeps the largest of its readings. */
const GAUGES = ["running", "waiting", "kvUse"] as const satisfies readonly (keyof Reading & keyof Load)[];
type Peaks = Readonly<Partial<Record<(typeof GAUGES)[number], number>>>;

interface Slots extends Window {
  /** Time of the first row. */
  readonly start: number;
  /** The latest reading that ended an interval, and the interval's number. */
  latest: { readonly reading: Reading; readonly slot: number } | undefined;
  /** Peaks of the interval that has not ended. */
  peaks: Peaks;
  /** Figures written by this process. */
  numWritten: number;
}

export class History {
  readonly #rows: Float32Array<ArrayBuffer>;
  /** Numbers of a row. */
  readonly #row: number;
  readonly #slots: ReadonlyMap<WindowName, Slots>;
  #file: number | undefined;
  #unlock: (() => void) | undefined;
  #hasProblem = false;

  /**
   * @param path a new file, or one from an earlier run; undefined: memory only
   * @param onProblem called once for each period in which the file cannot be written, and if another server has it: the
   * figures are then in memory
   * @param isOurs whether one of this server's locks covers the file
   * @throws invalid_option
   */
  constructor(
    path?: string,
    private readonly onProblem: (text: string) => void = () => {},
    isOurs = false,
    private readonly layout: HistoryLayout = SERVER_LAYOUT,
  ) {
    let start = 0;
    this.#row = rowLength(layout);
    this.#rows = new Float32Array(NUM_ROWS * this.#row);
    this.#slots = new Map(
      WINDOW_NAMES.map((name) => {
        const slots: Slots = { ...WINDOWS[name], start, latest: undefined, peaks: {}, numWritten: 0 };
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
      this.#file = openHistory(path, this.#rows, layout);
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
      // The first reading begins an interval, as does one after the clock is set back.
      if (latest === undefined || slot <= latest.slot) continue;
      slots.numWritten++;
      this.#put(slots.start + (slot % slots.count), { ...loadBetween(latest.reading, reading), ...peaks });
    }
  }

  /** Oldest first. */
  read(name: WindowName, nowMs: number): readonly Load[] {
    const { start, count, everyMs } = this.#slots.get(name)!;
    const since = nowMs - count * everyMs;
    return Array.from({ length: count }, (_, i) => this.#valuesOf(start + i))
      .filter((values) => timeOf(values) > since && timeOf(values) <= nowMs)
      .map((values) => loadOf(this.layout, values))
      .sort((a, b) => a.atMs - b.atMs);
  }

  /** Number of a window's figures written since this history was opened. */
  numWritten(name: WindowName): number {
    return this.#slots.get(name)!.numWritten;
  }

  /** Time of the newest figure; 0 without figures. */
  newestMs(): number {
    let newest = 0;
    for (let row = 0; row < NUM_ROWS; row++) newest = Math.max(newest, timeOf(this.#valuesOf(row)));
    return newest;
  }

  everyMs(name: WindowName): number {
    return WINDOWS[name].everyMs;
  }

  /** Time from the oldest figure to the newest. */
  lengthMs(name: WindowName): number {
    return WINDOWS[name].everyMs * WINDOWS[name].count;
  }

  /** Whether only this server writes the file. */
  get isKept(): boolean {
    return this.#file !== undefined;
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
    this.#unlock?.();
    this.#unlock = undefined;
  }

  #valuesOf(row: number): Float32Array<ArrayBuffer> {
    return this.#rows.subarray(row * this.#row, (row + 1) * this.#row);
  }

  #put(row: number, load: Load): void {
    const values = this.#valuesOf(row);
    values.set(valuesOf(this.layout, load));
    if (this.#file === undefined) return;
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    try {
      writeSync(this.#file, bytes, 0, bytes.length, TITLE_BYTES + row * bytes.length);
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

/** @returns a function that releases the file's lock; undefined: another server holds it */
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

const titleOf = ({ title }: Pick<HistoryLayout, "title">): Buffer => Buffer.from(`${title}\n`.padEnd(TITLE_BYTES));

/** Replaces a file of the earlier layout by one of this layout; other files stay as they are. */
function convertEarlier(path: string, layout: HistoryLayout): void {
  const file = openSync(path, constants.O_RDONLY);
  // Names of parts' files never begin with "=".
  const converted = join(dirname(path), `=history-${process.pid}`);
  try {
    const { size } = fstatSync(file);
    const length = earlierRowLength(layout);
    const earlier = new Float64Array(NUM_ROWS * length);
    if (size <= TITLE_BYTES || size > TITLE_BYTES + earlier.byteLength) return;
    const title = Buffer.alloc(TITLE_BYTES);
    readSync(file, title, 0, TITLE_BYTES, 0);
    if (!title.equals(titleOf(layout.earlier))) return;
    readSync(file, new Uint8Array(earlier.buffer), 0, earlier.byteLength, TITLE_BYTES);
    const width = rowLength(layout);
    const rows = new Float32Array(NUM_ROWS * width);
    for (let row = 0; row < NUM_ROWS; row++)
      rows.set(convertedRow(layout, earlier.subarray(row * length, (row + 1) * length)), row * width);
    writeFileSync(converted, Buffer.concat([titleOf(layout), new Uint8Array(rows.buffer)]), { mode: 0o600 });
    renameSync(converted, path);
  } finally {
    closeSync(file);
    rmSync(converted, { force: true });
  }
}

/** @param rows receives the file's rows @returns the open file */
function openHistory(path: string, rows: Float32Array<ArrayBuffer>, layout: HistoryLayout): number {
  const title = titleOf(layout);
  const fileBytes = TITLE_BYTES + rows.byteLength;
  let file: number | undefined;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    if (statSync(path, { throwIfNoEntry: false })?.isFile() === true) convertEarlier(path, layout);
    file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    const stat = fstatSync(file);
    const magic = Buffer.alloc(TITLE_BYTES);
    const numRead = stat.isFile() ? readSync(file, magic, 0, TITLE_BYTES, 0) : 0;
    const isOurs = stat.isFile() && magic.subarray(0, numRead).equals(title.subarray(0, numRead));
    if (!isOurs || stat.size > fileBytes || numRead < Math.min(stat.size, TITLE_BYTES))
      throw new Error("other content");
    // The file is new, or incomplete because its process ended: the missing rows become zeros, which have no time.
    if (stat.size < fileBytes) {
      writeSync(file, title, 0, TITLE_BYTES, 0);
      ftruncateSync(file, fileBytes);
    }
    if (stat.size > TITLE_BYTES) readSync(file, new Uint8Array(rows.buffer), 0, rows.byteLength, TITLE_BYTES);
    return file;
  } catch (thrown) {
    if (file !== undefined) closeSync(file);
    throw cannotBe(path, thrown);
  }
}
