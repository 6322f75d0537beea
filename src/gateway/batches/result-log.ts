/**
 * The results of a batch's lines, each appended once: the only record of which lines are done. An entry is
 *
 *   <index> <outcome> <input> <cached> <output> <reasoning> <bytes of the JSON> <JSON>\n
 *
 * A killed process leaves at most a torn last entry, which the next one cuts off: its line runs again. What a power cut
 * may lose is bounded by the time between two syncs; the entries before it stay.
 */
import { type FileHandle, open } from "node:fs/promises";
import type { BatchUsage } from "./record.js";

/** succeeded: an answer with a status below 400; the others have no such answer. */
export const OUTCOMES = ["succeeded", "errored", "expired", "cancelled"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface LogEntry {
  /** Position of the line in the batch's index, from 0. */
  readonly index: number;
  readonly outcome: Outcome;
  readonly usage: BatchUsage;
  /** One line of the output file, without its end. */
  readonly json: Buffer;
}

export type EntryHead = Omit<LogEntry, "json">;

const SYNC_MS = 1000;
const SLICE_BYTES = 1024 * 1024;
/** Seven numbers, six of at most 16 digits. */
const MAX_HEAD_BYTES = 160;
const NEWLINE = 0x0a;
const HEAD = /^(\d+) ([a-z]+) (\d+) (\d+) (\d+) (\d+) (\d+) $/;

export class ResultLog {
  #numBytes: number;
  #writing: Promise<void> = Promise.resolve();
  #syncTimer: NodeJS.Timeout | undefined;

  private constructor(
    private readonly handle: FileHandle,
    numBytes: number,
  ) {
    this.#numBytes = numBytes;
  }

  /**
   * Opens a log, and cuts off an incomplete entry.
   * @param onEntry called for every existing entry
   */
  static async open(path: string, onEntry: (entry: EntryHead) => void): Promise<ResultLog> {
    const handle = await open(path, "a+", 0o600);
    try {
      const numBytes = await scan(handle, (head) => onEntry(head));
      await handle.truncate(numBytes);
      return new ResultLog(handle, numBytes);
    } catch (thrown) {
      await handle.close();
      throw thrown;
    }
  }

  /** Resolves when the kernel has the entries. If it rejects, the log is as before. */
  append(entries: readonly LogEntry[]): Promise<void> {
    const parts = entries.flatMap(({ index, outcome, usage, json }) => {
      const { input, cached, output, reasoning } = usage;
      const head = `${index} ${outcome} ${input} ${cached} ${output} ${reasoning} ${json.length} `;
      return [Buffer.from(head), json, Buffer.from("\n")];
    });
    const bytes = Buffer.concat(parts);
    const done = this.#writing.then(() => this.#write(bytes));
    this.#writing = done.catch(() => {});
    return done;
  }

  /** Resolves when all entries are on the disk. */
  async sync(): Promise<void> {
    await this.#writing;
    await this.handle.datasync();
  }

  async close(): Promise<void> {
    clearTimeout(this.#syncTimer);
    await this.#writing;
    await this.handle.datasync().catch(() => {});
    await this.handle.close();
  }

  async #write(bytes: Buffer): Promise<void> {
    try {
      await this.handle.appendFile(bytes);
      this.#numBytes += bytes.length;
    } catch (thrown) {
      // A part may have been written before the disk was full.
      await this.handle.truncate(this.#numBytes);
      throw thrown;
    }
    this.#syncTimer ??= setTimeout(() => {
      this.#syncTimer = undefined;
      this.handle.datasync().catch(() => {});
    }, SYNC_MS).unref();
  }
}

/**
 * Reads the whole entries of a log from its start, with their JSON.
 * @param onEntry its promise delays the next entry
 */
export async function readEntries(path: string, onEntry: (entry: LogEntry) => Promise<void>): Promise<void> {
  const handle = await open(path, "r").catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === "ENOENT") return undefined;
    throw thrown;
  });
  if (handle === undefined) return;
  try {
    await scan(handle, async (head, start, length) => {
      const json = Buffer.allocUnsafe(length);
      await handle.read(json, 0, length, start);
      await onEntry({ ...head, json });
    });
  } finally {
    await handle.close();
  }
}

/** @returns the size of all whole entries */
async function scan(
  handle: FileHandle,
  onEntry: (head: EntryHead, start: number, length: number) => void | Promise<void>,
): Promise<number> {
  const { size } = await handle.stat();
  const slice = Buffer.allocUnsafe(SLICE_BYTES);
  let [sliceStart, sliceBytes, position] = [0, 0, 0];
  const load = async (from: number): Promise<void> => {
    const { bytesRead } = await handle.read(slice, 0, SLICE_BYTES, from);
    [sliceStart, sliceBytes] = [from, bytesRead];
  };
  const has = (from: number, end: number) => from >= sliceStart && end <= sliceStart + sliceBytes;
  while (position < size) {
    const headEnd = Math.min(size, position + MAX_HEAD_BYTES);
    if (!has(position, headEnd)) await load(position);
    const head = readHead(slice.subarray(position - sliceStart, headEnd - sliceStart));
    if (head === undefined) return position;
    const start = position + head.numBytes;
    const end = start + head.length;
    if (end >= size) return position;
    if (!has(end, end + 1)) await load(end);
    if (slice[end - sliceStart] !== NEWLINE) return position;
    const told = onEntry(head.entry, start, head.length);
    if (told !== undefined) await told;
    position = end + 1;
  }
  return position;
}

function readHead(bytes: Buffer) {
  let numSpaces = 0;
  let end = 0;
  while (end < bytes.length && numSpaces < 7) if (bytes[end++] === 0x20) numSpaces++;
  const match = HEAD.exec(bytes.toString("latin1", 0, end));
  const outcome = OUTCOMES.find((each) => each === match?.[2]);
  if (match === null || outcome === undefined) return undefined;
  const [index, input, cached, output, reasoning, length] = [1, 3, 4, 5, 6, 7].map((i) => Number(match[i]));
  const usage = { input: input!, cached: cached!, output: output!, reasoning: reasoning! };
  return { entry: { index: index!, outcome, usage }, numBytes: end, length: length! };
}
