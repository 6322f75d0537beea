/**
 * A lock file between processes, so that two starts do not install and compile at the same time. The holder touches the
 * file every second; a lock whose process is gone, or that is untouched for a minute, is taken over. The takeover
 * follows src/core/file-lock.ts, which cannot run before it is compiled.
 */
import { createHash } from "node:crypto";
import { lstatSync, mkdirSync, readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const HEARTBEAT_MS = 1_000;
const ABANDONED_MS = 60_000;
const POLL_MS = 150;

/** One owner's line in the lock file. Unique per acquisition, so that a holder only releases its own lock. */
function ownerLine() {
  return `${hostname()} ${process.pid} ${process.hrtime.bigint()}`;
}

/** @returns whether the file system call succeeded */
function tryCall(call) {
  try {
    call();
    return true;
  } catch {
    return false;
  }
}

function tryCreate(path, line) {
  try {
    writeFileSync(path, line, { flag: "wx" });
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

function isProcessAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** Empty for an unreadable lock, such as a dangling link, and for a holder that has not written its line. */
function readLine(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function isOld(path) {
  const touchedMs = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return touchedMs !== undefined && Date.now() - touchedMs > ABANDONED_MS;
}

/** Whether the lock's process is gone or silent; an empty lock is judged by its age only. */
function isAbandoned(path) {
  const [host, pid] = readLine(path).split(" ");
  return (host === hostname() && pid !== undefined && !isProcessAlive(Number(pid))) || isOld(path);
}

/** The file of the successor to the owner that this file names; an empty file is identified by itself. */
function successorOf(path, file) {
  const { ino, mtimeMs } = lstatSync(file, { throwIfNoEntry: false }) ?? {};
  const id = readLine(file) || `${ino} ${mtimeMs}`;
  return `${path}.after-${createHash("sha256").update(id).digest("hex").slice(0, 16)}`;
}

/** The lock, and the files of unfinished takeovers, each named after its predecessor. */
function chainOf(path) {
  const files = [];
  const isThere = (file) => lstatSync(file, { throwIfNoEntry: false }) !== undefined;
  for (let file = path; isThere(file); file = successorOf(path, file)) files.push(file);
  return files;
}

/**
 * Takes over an abandoned lock, which several processes may attempt: the successor is the process that creates the file
 * named after the owner, and that file becomes the lock. A later process, for which that name is free again, finds that
 * the lock no longer leads to its own file.
 */
function succeed(path, line) {
  const chain = chainOf(path);
  const last = chain.at(-1);
  if (last === undefined || !isAbandoned(last)) return false;
  const file = successorOf(path, last);
  if (!tryCreate(file, line)) return false;
  if (chainOf(path).at(-1) !== file || !tryCall(() => renameSync(file, path))) {
    rmSync(file, { force: true });
    return false;
  }
  for (const each of chain.slice(1)) tryCall(() => rmSync(each));
  return true;
}

/** Runs `work` while holding the lock at `path`; `onWait` is called once when another process holds it. */
export async function withLock(path, work, onWait = () => {}) {
  mkdirSync(dirname(path), { recursive: true });
  const line = ownerLine();
  let hasWaited = false;
  while (!tryCreate(path, line)) {
    if (succeed(path, line)) break;
    if (!hasWaited) onWait();
    hasWaited = true;
    await delay(POLL_MS);
  }
  const release = () => {
    if (readLine(path) === line) rmSync(path, { force: true });
  };
  const heartbeat = setInterval(() => {
    const now = new Date();
    // The lock was removed from outside: the work continues, without a lock to refresh.
    tryCall(() => utimesSync(path, now, now));
  }, HEARTBEAT_MS);
  heartbeat.unref();
  process.once("exit", release);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    process.removeListener("exit", release);
    release();
  }
}
