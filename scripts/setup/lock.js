/**
 * A lock file between processes, so that two starts at once do not install and compile over each other. The holder
 * touches the file every second; a lock whose process is gone, or that nobody touched for a minute, is taken over.
 */
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const HEARTBEAT_MS = 1_000;
const ABANDONED_MS = 60_000;
const POLL_MS = 150;

/** One owner's line in the lock file. Unique per acquisition, so that a takeover can tell whose lock it moved. */
function ownerLine() {
  return `${hostname()} ${process.pid} ${process.hrtime.bigint()}`;
}

function tryCreate(path, line) {
  try {
    const fd = openSync(path, "wx");
    writeSync(fd, line);
    closeSync(fd);
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

/** The lock's content when nobody stands behind it any more; undefined while it is held or already gone. */
function abandonedLine(path) {
  try {
    const ageMs = Date.now() - statSync(path).mtimeMs;
    const line = readFileSync(path, "utf8");
    const [host, pid] = line.split(" ");
    // An empty file is a holder between creating and writing; only its age can speak against it.
    const isOwnerGone = host === hostname() && pid !== undefined && !isProcessAlive(Number(pid));
    return isOwnerGone || ageMs > ABANDONED_MS ? line : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Moves an abandoned lock out of the way. Two waiters may both see it: the second one's rename can then catch the first
 * one's fresh lock, which its content shows, so it is put back.
 */
function clearAbandoned(path, line) {
  const aside = `${path}.${process.pid}.aside`;
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  if (readFileSync(aside, "utf8") === line) rmSync(aside, { force: true });
  else renameSync(aside, path);
}

/** Runs `work` while holding the lock at `path`; `onWait` is called once when another process holds it. */
export async function withLock(path, work, onWait = () => {}) {
  mkdirSync(dirname(path), { recursive: true });
  const line = ownerLine();
  let hasWaited = false;
  while (!tryCreate(path, line)) {
    const abandoned = abandonedLine(path);
    if (abandoned !== undefined) {
      clearAbandoned(path, abandoned);
      continue;
    }
    if (!hasWaited) onWait();
    hasWaited = true;
    await delay(POLL_MS);
  }
  const release = () => rmSync(path, { force: true });
  const heartbeat = setInterval(() => {
    const now = new Date();
    try {
      utimesSync(path, now, now);
    } catch {
      // Removed from outside: the work goes on, and there is nothing left to keep fresh.
    }
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
