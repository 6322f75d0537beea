/**
 * The folder `OUT.partial` of a stopped `millrace quantize`: finished copies, and a journal of all slow results. A
 * later run with the same identity resumes from it. Lines and tensors have digests, so a torn end counts as unwritten.
 */
import { createHash } from "node:crypto";
import {
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { writingTo } from "../convert/convert.js";
import { MillraceError } from "../core/errors.js";
import { tryFileLock } from "../core/file-lock.js";
import type { TensorLog } from "../formats/files/write-tensors.js";
import type { Identity } from "./identity.js";

const NAME = "journal";
const LOCK = "lock";
const IDENTITY = "identity";
const OUTPUT = "output ";
const DIGEST_LENGTH = 16;

/**
 * The stored value of this id, or a new one from `make`, which is then stored. Values are JSON that may contain NaN and
 * infinities.
 */
export type Recall = <T>(id: string, make: () => T | Promise<T>) => Promise<T>;

const folderOf = (out: string): string => `${out}.partial`;

/** Paths that a stopped run has finished writing, or was about to write. */
export const outputsOf = (out: string): ReadonlySet<string> =>
  new Set(
    [...readLines(join(folderOf(out), NAME)).records.keys()].flatMap((id) =>
      id.startsWith(OUTPUT) ? [id.slice(OUTPUT.length)] : [],
    ),
  );

/**
 * Runs `work` with the journal of `out`. The journal is removed when the work succeeds, or can never succeed with these
 * options.
 * @throws invalid_option if another run has begun `out`, or is writing it
 */
export function journaled<T>(out: string, identity: Identity, work: (journal: Journal) => Promise<T>): Promise<T> {
  const folder = folderOf(out);
  return writingTo(out, `${folder} is kept, and the same command goes on`, async () => {
    const journal = new Journal(folder, identity);
    try {
      const result = await work(journal);
      journal.remove();
      return result;
    } catch (thrown) {
      if (journal.isEmpty || (isRefusal(thrown) && !journal.hasCandidate)) journal.remove();
      throw thrown;
    } finally {
      journal.close();
    }
  });
}

/** Whether the same command would always fail there. A full disk may have room later. */
const isRefusal = (thrown: unknown): boolean =>
  thrown instanceof MillraceError &&
  thrown.status === 400 &&
  thrown.code !== "file_unreadable" &&
  (thrown.cause as NodeJS.ErrnoException | undefined)?.syscall === undefined;

/** Prefix of the ids of finished copies. */
export const CANDIDATE = "candidate ";

export class Journal {
  /** Whether a stopped run has left results. */
  readonly isResumed: boolean;
  /** JSON by id. */
  readonly #records: Map<string, string>;
  readonly #fd: number;
  readonly #unlock: () => void;

  /** @throws invalid_option */
  constructor(
    readonly folder: string,
    identity: Identity,
  ) {
    refuseOther(folder);
    this.#unlock = lockOf(folder);
    try {
      const path = join(folder, NAME);
      const { records, numBytes } = readLines(path);
      const isOwn = records.get(IDENTITY) === JSON.stringify(identity);
      // Without results there is nothing to lose.
      if (!isOwn && records.size > 1) throw otherRun(folder, JSON.parse(records.get(IDENTITY) ?? "{}"), identity);
      this.isResumed = records.size > 1;
      this.#records = isOwn ? records : new Map();
      if (isOwn) truncateSync(path, numBytes);
      else for (const name of othersIn(folder)) rmSync(join(folder, name), { recursive: true });
      this.#fd = openSync(path, isOwn ? "a" : "w");
      if (!isOwn) this.set(IDENTITY, identity);
    } catch (thrown) {
      this.#unlock();
      throw thrown;
    }
  }

  get isEmpty(): boolean {
    return this.#records.size <= 1;
  }

  /** Whether a copy is finished and judged, so that only its place may still be refused. */
  get hasCandidate(): boolean {
    return [...this.#records.keys()].some((id) => id.startsWith(CANDIDATE));
  }

  get(id: string): unknown {
    const json = this.#records.get(id);
    return json === undefined ? undefined : JSON.parse(json, revived);
  }

  set(id: string, value: unknown): void {
    const json = JSON.stringify(value, replaced);
    const line = JSON.stringify([id, json]);
    writeSync(this.#fd, `${digestOf(line)} ${line}\n`);
    this.#records.set(id, json);
  }

  readonly recall: Recall = async <T>(id: string, make: () => T | Promise<T>): Promise<T> => {
    if (this.#records.has(id)) return this.get(id) as T;
    const made = await make();
    this.set(id, made);
    return made;
  };

  /** Records that the run is about to write `path`, so that a later run recognises the file as its own. */
  claim(path: string): void {
    if (!this.#records.has(OUTPUT + path)) this.set(OUTPUT + path, true);
  }

  /** The log of one method's copy. */
  tensorLog(method: string, onFound: TensorLog["onFound"]): TensorLog {
    const idOf = (name: string): string => `tensor of ${method} ${name}`;
    return {
      digestOf: (name) => this.get(idOf(name)) as string | undefined,
      add: (name, digest) => this.set(idOf(name), digest),
      onFound,
    };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  close(): void {
    closeSync(this.#fd);
    this.#unlock();
  }
}

const isFile = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;

/** Names of the other files beside the journal. */
const othersIn = (folder: string): readonly string[] =>
  readdirSync(folder).filter((name) => name !== LOCK && !(name === NAME && isFile(join(folder, name))));

/** Refuses an existing file of this name that is not an unfinished copy. */
function refuseOther(folder: string): void {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found === undefined) {
    mkdirSync(folder);
    return;
  }
  const isOwn = (): boolean => othersIn(folder).length === 0 || readLines(join(folder, NAME)).records.has(IDENTITY);
  if (found.isDirectory() && isOwn()) return;
  throw new MillraceError("invalid_option", `expected nothing or an unfinished copy at ${folder}, got something else`, {
    hint: "move it away, or choose another --out",
  });
}

function lockOf(folder: string): () => void {
  const unlock = tryFileLock(join(folder, LOCK));
  if (unlock !== undefined) return unlock;
  throw new MillraceError("invalid_option", `expected no other run at work on ${folder}, got one`, {
    hint: "wait for its end; after a crash on another machine, for a minute",
  });
}

function otherRun(folder: string, before: Identity, now: Identity): MillraceError {
  const isOther = (key: string): boolean => JSON.stringify(before[key]) !== JSON.stringify(now[key]);
  const key = [...Object.keys(now), ...Object.keys(before)].find(isOther);
  return new MillraceError(
    "invalid_option",
    `expected the run that was stopped and left ${folder}, got one with another ${key}`,
    { hint: `give the same options to go on, or remove ${folder} to begin anew` },
  );
}

/** Reads whole lines, up to the first damaged one. */
function readLines(path: string): { readonly records: Map<string, string>; readonly numBytes: number } {
  const records = new Map<string, string>();
  let numBytes = 0;
  const text = isFile(path) ? readFileSync(path, "utf8") : "";
  for (const line of text.split("\n").slice(0, -1)) {
    const json = line.slice(DIGEST_LENGTH + 1);
    if (line.slice(0, DIGEST_LENGTH) !== digestOf(json)) break;
    const [id, value] = JSON.parse(json) as [string, string];
    records.set(id, value);
    numBytes += Buffer.byteLength(line) + 1;
  }
  return { records, numBytes };
}

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, DIGEST_LENGTH);

/** JSON cannot represent NaN and infinities. */
const replaced = (_: string, value: unknown): unknown =>
  typeof value === "number" && !Number.isFinite(value) ? { notFinite: String(value) } : value;
const revived = (_: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && "notFinite" in value ? Number(value.notFinite) : value;
