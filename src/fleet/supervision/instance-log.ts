/** Writes an instance's output to files of bounded size, and keeps the last lines in memory to explain its end. */
import { type FileHandle, mkdir, open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Size at which the current file, <path>, becomes <path>.1. */
const MAX_FILE_BYTES = 8 * 2 ** 20;
const TAIL_BYTES = 4096;
const TAIL_LINES = 12;

export class InstanceLog {
  #file: FileHandle | undefined;
  #numBytes = 0;
  #tail = "";
  #isFailing = false;
  /** Ends with the last queued write, since writes run one after another. */
  #queue: Promise<void> = Promise.resolve();

  constructor(
    readonly path: string,
    private readonly onError: (error: unknown) => void,
    private readonly maxFileBytes = MAX_FILE_BYTES,
  ) {}

  /**
   * Resolves when the chunk is written, so that a caller that awaits it reads no faster than the disk. Never rejects.
   */
  write(chunk: Buffer | string): Promise<void> {
    this.#tail = (this.#tail + chunk.toString("utf8")).slice(-TAIL_BYTES);
    return this.#enqueue(() => this.#append(chunk));
  }

  /** The last lines, without control characters and `secret`. */
  lastLines(secret: string | undefined): string {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: an engine may print anything
    const readable = this.#tail.replace(/\u001b\[[\d;]*m|[\u0000-\u0008\u000b-\u001f\u007f\ufffd]/g, "");
    const text = secret === undefined || secret === "" ? readable : readable.replaceAll(secret, "***");
    return text.trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
  }

  forgetTail(): void {
    this.#tail = "";
  }

  close(): Promise<void> {
    return this.#enqueue(async () => {
      await this.#file?.close();
      this.#file = undefined;
    });
  }

  #enqueue(task: () => Promise<void>): Promise<void> {
    this.#queue = this.#queue.then(task).then(
      () => {
        this.#isFailing = false;
      },
      (thrown: unknown) => {
        // A full disk is reported once, not for every lost line.
        if (!this.#isFailing) this.onError(thrown);
        this.#isFailing = true;
      },
    );
    return this.#queue;
  }

  async #append(chunk: Buffer | string): Promise<void> {
    this.#file ??= await this.#open();
    if (this.#numBytes > 0 && this.#numBytes + chunk.length > this.maxFileBytes) {
      await this.#file.close();
      this.#file = undefined;
      await rename(this.path, `${this.path}.1`);
      this.#file = await this.#open();
    }
    await this.#file.appendFile(chunk);
    this.#numBytes += chunk.length;
  }

  /** Only the owner may read the file, since some engines print their whole command line. */
  async #open(): Promise<FileHandle> {
    await mkdir(dirname(this.path), { recursive: true });
    const file = await open(this.path, "a", 0o600);
    this.#numBytes = (await file.stat()).size;
    return file;
  }
}
