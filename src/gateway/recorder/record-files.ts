/**
 * Files of JSON lines, written in the background: the queue is bounded, a new file begins each day and when one is
 * full, and the oldest files go by size and age. No failure here fails a request.
 */
import { type FileHandle, mkdir, open, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";

interface RecordFilesOptions {
  /** Created if missing, for its owner alone. */
  readonly folder: string;
  /** Upper bound of the size of all files. */
  readonly maxBytes: number;
  /** Age of a file's first line at which the file goes. */
  readonly keepMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly onWritten: (count: number) => void;
  /** @param thrown absent: the queue is full, or the line is too long */
  readonly onLost: (count: number, thrown?: unknown) => void;
  readonly flushMs?: number;
  readonly maxQueueBytes?: number;
}

const MiB = 1024 * 1024;
const MAX_QUEUE_BYTES = 64 * MiB;
const MAX_FILE_BYTES = 64 * MiB;
/** Least number of files, so that removing the oldest is a small step. */
const LEAST_FILES = 8;
const MAX_BATCH_BYTES = MiB;
const CLEAN_MS = 3_600_000;
const CLOSE_MS = 3000;
const DAY_MS = 86_400_000;
const NAME = /^(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d)-(\d{3}Z)(?:\.\d+)?\.jsonl$/;

/** When a file's first line was written, from its name: copying a file changes its own times. */
const beganMs = (name: string): number => Date.parse(name.replace(NAME, "$1:$2:$3.$4"));

export class RecordFiles {
  /** Lines with their line breaks: the requests themselves take several times as much memory. */
  #queue: Buffer[] = [];
  #queuedBytes = 0;
  #writing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #file: { readonly handle: FileHandle; readonly name: string; readonly day: number; numBytes: number } | undefined;
  readonly #cleaning: NodeJS.Timeout;
  readonly #fileBytes: number;

  constructor(private readonly options: RecordFilesOptions) {
    this.#fileBytes = Math.min(MAX_FILE_BYTES, Math.floor(options.maxBytes / LEAST_FILES));
    this.#cleaning = setInterval(() => void this.#tidy(), CLEAN_MS).unref();
    void this.#clean(0);
  }

  /**
   * Never throws, and never waits.
   * @param line not called while the queue is full; throws if there is nothing to write
   */
  push(line: () => string): void {
    const { maxQueueBytes = MAX_QUEUE_BYTES, onLost } = this.options;
    if (this.#queuedBytes >= maxQueueBytes) {
      onLost(1);
      return;
    }
    let made: Buffer;
    try {
      made = Buffer.from(`${line()}\n`);
    } catch (thrown) {
      onLost(1, thrown);
      return;
    }
    if (made.length > this.#fileBytes || this.#queuedBytes + made.length > maxQueueBytes) {
      onLost(1);
      return;
    }
    this.#queue.push(made);
    this.#queuedBytes += made.length;
    if (this.#queuedBytes >= MAX_BATCH_BYTES) this.#write();
    else this.#writeSoon();
  }

  /** Writes the queued records; gives up after three seconds. */
  async close(): Promise<void> {
    clearInterval(this.#cleaning);
    const isOver = (async () => {
      while (this.#writing !== undefined || this.#queue.length > 0) {
        this.#write();
        await this.#writing;
      }
      await this.#end();
    })();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS);
    });
    await Promise.race([isOver, late]);
    clearTimeout(timer);
    clearTimeout(this.#timer);
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#drain().finally(() => {
      this.#writing = undefined;
      if (this.#queue.length > 0) this.#writeSoon();
    });
  }

  #writeSoon(): void {
    this.#timer ??= setTimeout(() => this.#write(), this.options.flushMs ?? 1000).unref();
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      const lines = this.#nextLines();
      try {
        await this.#append(Buffer.concat(lines));
        this.options.onWritten(lines.length);
      } catch (thrown) {
        this.options.onLost(lines.length, thrown);
        await this.#end().catch(() => {});
      }
    }
  }

  #nextLines(): readonly Buffer[] {
    const lines: Buffer[] = [];
    for (let numBytes = 0; numBytes < Math.min(MAX_BATCH_BYTES, this.#fileBytes); ) {
      const line = this.#queue.shift();
      if (line === undefined) break;
      lines.push(line);
      numBytes += line.length;
    }
    this.#queuedBytes -= lines.reduce((sum, { length }) => sum + length, 0);
    return lines;
  }

  async #append(bytes: Buffer): Promise<void> {
    const file = await this.#fileFor(bytes.length);
    try {
      await file.handle.appendFile(bytes);
    } catch (thrown) {
      // Readers refuse half a line.
      await file.handle.truncate(file.numBytes).catch(() => {});
      throw thrown;
    }
    file.numBytes += bytes.length;
  }

  /** A file of an earlier day is over, even if nothing follows it. */
  async #tidy(): Promise<void> {
    if (this.#writing === undefined && this.#file?.day !== this.#today()) await this.#end().catch(() => {});
    await this.#clean(0);
  }

  #today(): number {
    return Math.floor(this.options.now() / DAY_MS);
  }

  async #fileFor(numBytes: number) {
    const day = this.#today();
    const isFull = this.#file !== undefined && this.#file.numBytes + numBytes > this.#fileBytes;
    if (this.#file !== undefined && !isFull && this.#file.day === day) return this.#file;
    await this.#end();
    // The last line may pass the end of a file.
    await this.#clean(2 * this.#fileBytes);
    const { handle, name } = await this.#create();
    this.#file = { handle, name, day, numBytes: 0 };
    return this.#file;
  }

  /** Other gateways may write into the same folder. */
  async #create(): Promise<{ readonly handle: FileHandle; readonly name: string }> {
    const { folder, now } = this.options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const time = new Date(now()).toISOString().replace(/[:.]/g, "-");
    for (let n = 0; ; n++) {
      const name = `${time}${n === 0 ? "" : `.${n}`}.jsonl`;
      try {
        return { handle: await open(join(folder, name), "ax", 0o600), name };
      } catch (thrown) {
        if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
      }
    }
  }

  async #end(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.handle.close();
  }

  /** Removes files that are too old, and the oldest ones until there is room for `roomFor` bytes. */
  async #clean(roomFor: number): Promise<void> {
    const { folder, maxBytes, keepMs, now } = this.options;
    try {
      const names = (await readdir(folder)).filter((name) => NAME.test(name) && name !== this.#file?.name).sort();
      const found = await Promise.all(
        names.map(async (name) => {
          const { size } = await stat(join(folder, name));
          return { name, size };
        }),
      );
      let total = found.reduce((sum, { size }) => sum + size, this.#file?.numBytes ?? 0);
      for (const { name, size } of found) {
        if (total + roomFor <= maxBytes && now() - beganMs(name) <= keepMs) continue;
        await rm(join(folder, name), { force: true });
        total -= size;
      }
    } catch {
      // The folder is missing, or another process has removed a file.
    }
  }
}
