/**
 * A lock between processes, possibly on machines that share only the folder: a file that its owner touches as long as
 * it
 * lives. scripts/setup/lock.js does the same for the build, before this file is compiled.
 */
import { createHash, randomUUID } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

const BEAT_MS = 5000;
/**
 * A holder that has not touched its lock for this long counts as gone. The waiting process measures the time, since
 * machines' clocks differ.
 */
const ABANDONED_MS = 60_000;
/** The same for a holder in another container of this machine, which has the same clock. */
const SILENT_MS = 3 * BEAT_MS;
const POLL_MS = 200;

/**
 * @param onWait called once if another process holds the lock
 * @param signal ends the wait with its reason
 * @returns a function that releases the lock
 */
export async function acquireFileLock(
  path: string,
  onWait: () => void = () => {},
  signal?: AbortSignal,
): Promise<() => void> {
  mkdirSync(dirname(path), { recursive: true });
  const own = newOwner();
  let seen: { readonly state: string; readonly sinceMs: number } | undefined;
  while (!tryCreate(path, own)) {
    const last = lastOf(path);
    if (last === undefined) continue;
    const { state } = last;
    if (seen === undefined) onWait();
    if (seen?.state !== state) seen = { state, sinceMs: performance.now() };
    const isAbandoned = isOwnerGone(state) || performance.now() - seen.sinceMs > ABANDONED_MS;
    if (isAbandoned && succeed(path, last, own)) break;
    await wait(POLL_MS, undefined, { signal });
  }
  return hold(path, own);
}

/**
 * Takes the lock only if it is free now.
 * @returns a function that releases the lock; undefined: another process holds it, or may hold it
 */
export function tryFileLock(path: string): (() => void) | undefined {
  mkdirSync(dirname(path), { recursive: true });
  const own = newOwner();
  if (tryCreate(path, own)) return hold(path, own);
  const last = lastOf(path);
  if (last === undefined) return tryCreate(path, own) ? hold(path, own) : undefined;
  // A machine with so wrong a clock may take a live lock; the program also works without the lock.
  const isAbandoned = isOwnerGone(last.state) || isOld(last.file);
  return isAbandoned && succeed(path, last, own) ? hold(path, own) : undefined;
}

/** Locks that this process holds. */
const held = new Set<string>();

const newOwner = (): string => `${hostname()} ${process.pid} ${randomUUID()} ${processSpace()}`;

/** Containers may share a host name, and each numbers its processes from 1. */
function processSpace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "";
  }
}

/** Keeps touching a new lock. @returns a function that releases the lock */
function hold(path: string, own: string): () => void {
  held.add(own);
  const beat = setInterval(() => touch(path), BEAT_MS);
  beat.unref();
  const release = () => {
    clearInterval(beat);
    held.delete(own);
    process.off("exit", release);
    if (ownerOf(path) === own) rmSync(path, { force: true });
  };
  process.once("exit", release);
  return release;
}

function tryCreate(path: string, owner: string): boolean {
  try {
    writeFileSync(path, owner, { flag: "wx" });
    return true;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw thrown;
  }
}

/**
 * The owner in the lock file; empty: the file is unreadable, for instance because it is another user's; undefined:
 * there
 * is no file.
 */
function ownerOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "ENOENT" ? undefined : "";
  }
}

/** The lock's owner and the time of its last touch; undefined: the lock is free now. */
function stateOf(path: string): string | undefined {
  const owner = ownerOf(path);
  const entry = lstatSync(path, { throwIfNoEntry: false });
  // A dangling link has no owner, but still blocks the path.
  if (entry === undefined || (owner === undefined && !entry.isSymbolicLink())) return undefined;
  return `${owner ?? ""} ${entry.mtimeMs}`;
}

function isOld(path: string): boolean {
  const touchedMs = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return touchedMs !== undefined && Date.now() - touchedMs > ABANDONED_MS;
}

/**
 * Whether the owner's process has ended, which is known only for processes of this machine. An empty file is a lock
 * that
 * is just being taken.
 */
function isOwnerGone(state: string): boolean {
  const [host, pid, id, space, ...others] = state.split(" ");
  if (host !== hostname() || pid === undefined) return false;
  if (space !== processSpace()) return Date.now() - Number(others.at(-1) ?? space) > SILENT_MS;
  // In a container, each start may reuse the process number of the one before.
  if (Number(pid) === process.pid) return !held.has(`${host} ${pid} ${id} ${space}`);
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** A lock, or the file of a successor to an owner that is gone. */
interface Link {
  readonly file: string;
  readonly state: string;
  /** The files before this one, starting with the lock. */
  readonly before: readonly string[];
}

/** The present or last holder's file; undefined: the lock is free. */
function lastOf(path: string): Link | undefined {
  const before: string[] = [];
  let file = path;
  let state = stateOf(path);
  while (state !== undefined) {
    const next = successorOf(path, file, state);
    const stateOfNext = stateOf(next);
    if (stateOfNext === undefined) return { file, state, before };
    before.push(file);
    [file, state] = [next, stateOfNext];
  }
  return undefined;
}

/** The file of the owner's successor. Owners are unique; a file without an owner is identified by itself. */
function successorOf(path: string, file: string, state: string): string {
  const owner = state.slice(0, state.lastIndexOf(" "));
  const id = owner === "" ? `${lstatSync(file, { throwIfNoEntry: false })?.ino} ${state}` : owner;
  return `${path}.after-${createHash("sha256").update(id).digest("hex").slice(0, 16)}`;
}

/**
 * Takes over the lock of an owner that is gone. Many processes may see that: the successor is the process that creates
 * the file named after the owner, and that file becomes the lock. A later process, when that name is free again, sees
 * that the lock no longer leads to its own file.
 * @returns whether the lock is taken
 */
function succeed(path: string, last: Link, own: string): boolean {
  const file = successorOf(path, last.file, last.state);
  if (!tryCreate(file, own)) return false;
  if (lastOf(path)?.file !== file || !tryCall(() => renameSync(file, path))) {
    rmSync(file, { force: true });
    return false;
  }
  for (const each of [...last.before, last.file]) if (each !== path) tryCall(() => rmSync(each));
  return true;
}

/** @returns whether the call succeeded */
function tryCall(call: () => void): boolean {
  try {
    call();
    return true;
  } catch {
    return false;
  }
}

/** A lock that was removed from outside needs no touch. */
function touch(path: string): void {
  const now = new Date();
  tryCall(() => utimesSync(path, now, now));
}
