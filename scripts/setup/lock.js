/**
 * A lock file between processes, so that two starts at once do not install and compile over each other. The holder
 * touches the file every second; a lock whose process is gone, or that nobody touched for a minute, is taken over. It
 * takes over as src/core/file-lock.ts does, which cannot be used before it is compiled.
 */
import { lstatSync, mkdirSync, readFileSync, rmdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const HEARTBEAT_MS = 1_000;
const ABANDONED_MS = 60_000;
const POLL_MS = 150;

/** One owner's line in the lock file. Unique per acquisition, so that a holder gives back no lock but its own. */
function ownerLine() {
  return `${hostname()} ${process.pid} ${process.hrtime.bigint()}`;
}

/** @returns whether the file system did it */
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

/** Empty for a lock that cannot be read, such as a link to nothing, and for a holder without its line yet. */
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

/** Whether nobody stands behind the lock any more; only its age can speak against an empty one. */
function isAbandoned(path) {
  const [host, pid] = readLine(path).split(" ");
  return (host === hostname() && pid !== undefined && !isProcessAlive(Number(pid))) || isOld(path);
}

/**
 * Removes an abandoned lock. Two waiters may both see it, and the second one must not remove the first one's own lock:
 * so one at a time looks again and removes.
 * @returns whether the lock may be free now
 */
function clearAbandoned(path) {
  if (!isAbandoned(path)) return false;
  const turn = `${path}.takeover`;
  // Left by a process that was killed in the middle of its turn.
  if (isOld(turn)) tryCall(() => rmdirSync(turn));
  if (!tryCall(() => mkdirSync(turn))) return false;
  try {
    return !isAbandoned(path) || tryCall(() => rmSync(path));
  } finally {
    tryCall(() => rmdirSync(turn));
  }
}

/** Runs `work` while holding the lock at `path`; `onWait` is called once when another process holds it. */
export async function withLock(path, work, onWait = () => {}) {
  mkdirSync(dirname(path), { recursive: true });
  const line = ownerLine();
  let hasWaited = false;
  while (!tryCreate(path, line)) {
    if (clearAbandoned(path)) continue;
    if (!hasWaited) onWait();
    hasWaited = true;
    await delay(POLL_MS);
  }
  const release = () => {
    if (readLine(path) === line) rmSync(path, { force: true });
  };
  const heartbeat = setInterval(() => {
    const now = new Date();
    // Removed from outside: the work goes on, and there is nothing left to keep fresh.
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
