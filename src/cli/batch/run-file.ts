/**
 * Answers every line of a file of requests, several at once, and appends each answer as it arrives. A stopped run
 * resumes
 * at its place.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { assertReplaceable, isOutlet, isSameFile } from "../../core/new-file.js";
import { optionError } from "../../core/option-error.js";
import { assertReadable, gotOf } from "../../core/read-text.js";
import { BATCH_ENDPOINTS } from "../../gateway/batches/limits.js";
import { linesOf } from "../../gateway/batches/lines.js";
import { customIdOf, LineError, type LineRequest, readLine, urlOf } from "../../gateway/batches/read-line.js";
import { answeredLine } from "../../gateway/batches/result-lines.js";

export interface LineAnswer {
  readonly status: number;
  readonly body: Buffer;
  /** The pause that the server requests before a retry. */
  readonly retryAfterMs: number | undefined;
}

/** Rejects if no answer came. */
export type SendLine = (path: string, body: Buffer) => Promise<LineAnswer>;

export interface RunFileOptions {
  readonly input: string;
  readonly output: string;
  /** The file for lines without an answer; undefined: they go into the output. */
  readonly errors: string | undefined;
  readonly send: SendLine;
  /** Number of concurrent lines. */
  readonly numAtOnce: number;
  readonly onProgress: (counts: RunCounts) => void;
  /** Stops the run; lines under way are lost, and run again next time. */
  readonly signal: AbortSignal;
}

export interface RunCounts {
  readonly succeeded: number;
  readonly failed: number;
  /** Lines that already had answers. */
  readonly skipped: number;
}

const MAX_LINE_BYTES = 32 * 1024 * 1024;
const MAX_TRIES = 6;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
const AGAIN: readonly number[] = [408, 429, 500, 502, 503, 504];

/**
 * Checks the files before a model is loaded. Throws file_unreadable for an input without requests, and invalid_option
 * for
 * an output that cannot be written or is the input: answers would be mixed with the requests.
 */
export async function assertRunFiles({ input, output, errors }: Pick<RunFileOptions, "input" | "output" | "errors">) {
  await assertRequests(input);
  for (const [name, path] of [
    ["<output>", output],
    ["--errors", errors],
  ] as const) {
    // Opening and closing a pipe would end its reader.
    if (path === undefined || isOutlet(path)) continue;
    // Answers are appended to an existing file.
    if (existsSync(path)) await (await openFile(path, "a")).close();
    else assertReplaceable(path);
    if (isSameFile(path, input)) throw optionError(name, "another file than <input>", path);
  }
}

/** Throws file_unreadable unless a file has a line that is not blank. */
export async function assertRequests(path: string): Promise<void> {
  assertReadable(path, "requests");
  const file = await openFile(path, "r");
  try {
    for await (const _ of linesOf(file, MAX_LINE_BYTES)) return;
  } finally {
    await file.close();
  }
  throw new MillraceError("file_unreadable", `expected requests in ${path}, got an empty file`, {
    hint: "write one request a line, as docs/guides/batches.md shows",
  });
}

/** Throws file_unreadable. */
export async function runFile(options: RunFileOptions): Promise<RunCounts> {
  const input = await openFile(options.input, "r");
  const done = new Set<string>();
  const openOutput = (path: string) => openFile(path, isOutlet(path) ? "a" : "a+");
  const output = await openOutput(options.output);
  const errors = options.errors === undefined ? output : await openOutput(options.errors);
  try {
    if (!isOutlet(options.output)) await readDone(output, done);
    if (options.errors !== undefined && !isOutlet(options.errors)) await readDone(errors, done);
    return await new FileRun(options, output, errors, done).over(input);
  } finally {
    await input.close();
    await output.close();
    if (errors !== output) await errors.close();
  }
}

async function openFile(path: string, flags: string): Promise<FileHandle> {
  return await open(path, flags).catch((cause: NodeJS.ErrnoException) => {
    throw new MillraceError("file_unreadable", `expected a file at ${path}, got ${gotOf(cause)}`, {
      hint: "check the path and its permissions",
      cause,
    });
  });
}

/** Adds the custom_ids of an earlier run's lines, and removes an incomplete last line. */
async function readDone(handle: FileHandle, done: Set<string>): Promise<void> {
  await handle.truncate(await endOfLines(handle));
  for await (const { bytes } of linesOf(handle, Number.MAX_SAFE_INTEGER)) {
    const id = customIdOf(bytes!);
    if (id !== undefined) done.add(keyOf(id));
  }
}

/** @returns the size of a file up to its last newline */
async function endOfLines(handle: FileHandle): Promise<number> {
  const slice = Buffer.alloc(64 * 1024);
  const { size } = await handle.stat();
  for (let to = size; to > 0; to -= slice.length) {
    const from = Math.max(0, to - slice.length);
    const { bytesRead } = await handle.read(slice, 0, to - from, from);
    const at = slice.subarray(0, bytesRead).lastIndexOf(0x0a);
    if (at >= 0) return from + at + 1;
  }
  return 0;
}

/** Long ids are stored as hashes. */
const keyOf = (id: string): string => (id.length <= 44 ? id : `#${createHash("sha256").update(id).digest("base64")}`);

class FileRun {
  #counts = { succeeded: 0, failed: 0, skipped: 0 };
  readonly #seen = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  #failure: unknown;

  constructor(
    private readonly options: RunFileOptions,
    private readonly output: FileHandle,
    private readonly errors: FileHandle,
    private readonly done: ReadonlySet<string>,
  ) {}

  async over(input: FileHandle): Promise<RunCounts> {
    const { signal, numAtOnce } = this.options;
    for await (const { bytes, number } of linesOf(input, MAX_LINE_BYTES)) {
      while (this.#running.size >= numAtOnce) await Promise.race(this.#running);
      if (signal.aborted || this.#failure !== undefined) break;
      const running = this.#line(bytes, number).catch((thrown: unknown) => {
        this.#failure ??= thrown;
      });
      this.#running.add(running);
      void running.then(() => this.#running.delete(running));
    }
    await Promise.all(this.#running);
    if (this.#failure !== undefined) throw this.#failure;
    signal.throwIfAborted();
    return this.#counts;
  }

  async #line(bytes: Buffer | undefined, number: number): Promise<void> {
    const { signal } = this.options;
    let id = bytes === undefined ? undefined : customIdOf(bytes);
    if (id !== undefined && this.done.has(keyOf(id))) return this.#count("skipped");
    try {
      const { line, path } = await readRequest(bytes);
      id = line.customId;
      if (this.#seen.has(keyOf(id)))
        throw new LineError("duplicate_custom_id", "expected each custom_id once, got one again");
      this.#seen.add(keyOf(id));
      const { status, body } = await this.#ask(path, line.bytes);
      const requestId = `line-${number}`;
      const json = answeredLine({ kind: "openai", requestId, customId: id }, status, body);
      await this.#write(status < 400 ? this.output : this.errors, json);
      this.#count(status < 400 ? "succeeded" : "failed");
    } catch (thrown) {
      if (signal.aborted) return;
      const isFault = thrown instanceof LineError;
      const error = isFault ? { code: thrown.code, message: thrown.message } : unreachable(thrown);
      const json = { id: `batch_req_line-${number}`, custom_id: id ?? `line ${number}`, response: null, error };
      await this.#write(this.errors, Buffer.from(JSON.stringify(json)));
      this.#count("failed");
    }
  }

  async #ask(path: string, body: Buffer): Promise<LineAnswer> {
    const { send, signal } = this.options;
    for (let numTries = 1; ; numTries++) {
      signal.throwIfAborted();
      const answer = await send(path, body).catch((thrown: unknown) => {
        if (numTries === MAX_TRIES || signal.aborted) throw thrown;
        return undefined;
      });
      if (answer !== undefined && (!AGAIN.includes(answer.status) || numTries === MAX_TRIES)) return answer;
      const pauseMs = answer?.retryAfterMs ?? FIRST_PAUSE_MS * 2 ** (numTries - 1);
      await wait(Math.min(LONGEST_PAUSE_MS, pauseMs), undefined, { signal });
    }
  }

  async #write(file: FileHandle, json: Buffer): Promise<void> {
    // One write, so that lines do not mix, and a killed run leaves at most one incomplete line.
    await file.appendFile(Buffer.concat([json, Buffer.from("\n")]));
  }

  #count(what: keyof RunCounts): void {
    this.#counts = { ...this.#counts, [what]: this.#counts[what] + 1 };
    this.options.onProgress(this.#counts);
  }
}

async function readRequest(bytes: Buffer | undefined): Promise<{ readonly line: LineRequest; readonly path: string }> {
  if (bytes === undefined) throw new LineError("line_too_long", `expected at most ${MAX_LINE_BYTES} bytes, got more`);
  const path = urlOf(bytes) ?? "";
  const line = await readLine(bytes, { kind: "openai", endpoint: path, caller: { tenant: "" }, modelOf: () => "" });
  if (BATCH_ENDPOINTS.includes(path)) return { line, path };
  const got = JSON.stringify(path.slice(0, 80));
  throw new LineError("url_mismatch", `expected a url out of ${BATCH_ENDPOINTS.join(", ")}, got ${got}`, "url");
}

function unreachable(thrown: unknown): { readonly code: string; readonly message: string } {
  const { code, message } = toMillraceError(thrown, "upstream_failed");
  return { code, message };
}
