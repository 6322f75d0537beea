import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, describe, expect, test, vi } from "vitest";
import { acquireFileLock, tryFileLock } from "./file-lock.js";

/** The process space in this process's locks. */
const SPACE = readlinkSync("/proc/self/ns/pid");

const folder = mkdtempSync(join(tmpdir(), "lock-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("many who want it have it one at a time, and leave nothing", async () => {
  const path = join(folder, "deep", "many.lock");
  let numInside = 0;
  const turn = async () => {
    const release = await acquireFileLock(path);
    expect(++numInside).toBe(1);
    await wait(5);
    numInside--;
    release();
  };
  await Promise.all(Array.from({ length: 5 }, turn));
  expect(readdirSync(join(folder, "deep"))).toEqual([]);
});

test("who waits is told so once; what is given back twice is not somebody else's", async () => {
  const path = join(folder, "two.lock");
  const onWait = vi.fn();
  const release = await acquireFileLock(path, onWait);
  expect(onWait).not.toHaveBeenCalled();
  const second = acquireFileLock(path, onWait);
  await wait(500);
  expect(onWait).toHaveBeenCalledTimes(1);
  release();
  const releaseSecond = await second;
  release();
  expect(existsSync(path)).toBe(true);
  releaseSecond();
  expect(existsSync(path)).toBe(false);
});

test("a lock that cannot be read is waited for, and a signal ends the wait", async () => {
  const path = join(folder, "unreadable.lock");
  // A folder in the lock's place is unreadable, even for root.
  mkdirSync(path);
  const onWait = vi.fn();
  await expect(acquireFileLock(path, onWait, AbortSignal.timeout(300))).rejects.toThrow("aborted");
  expect(onWait).toHaveBeenCalledTimes(1);
  rmSync(path, { recursive: true });
  (await acquireFileLock(path))();
});

test("a link to nothing in a lock's place is waited for, and a signal ends the wait", async () => {
  const path = join(folder, "dangling.lock");
  symlinkSync(join(folder, "nothing"), path);
  const onWait = vi.fn();
  expect(tryFileLock(path)).toBeUndefined();
  await expect(acquireFileLock(path, onWait, AbortSignal.timeout(300))).rejects.toThrow("aborted");
  expect(onWait).toHaveBeenCalledTimes(1);
  rmSync(path);
  (await acquireFileLock(path))();
});

describe("of several who see its owner gone", () => {
  const ofGone = (id: string) => `${hostname()} ${spawnSync(process.execPath, ["-e", ""]).pid} ${id} ${SPACE}`;
  const successor = (path: string, owner: string) =>
    `${path}.after-${createHash("sha256").update(owner).digest("hex").slice(0, 16)}`;
  const filesOf = (path: string) => readdirSync(dirname(path)).filter((name) => name.startsWith(basename(path)));

  test("one takes a lock over, and the others wait for that one", async () => {
    const path = join(folder, "contested.lock");
    const gone = ofGone("x");
    const taker = `${hostname()} ${process.ppid} y ${SPACE}`;
    writeFileSync(path, gone);
    writeFileSync(successor(path, gone), taker);
    expect(tryFileLock(path)).toBeUndefined();
    await expect(acquireFileLock(path, () => {}, AbortSignal.timeout(300))).rejects.toThrow("aborted");
    expect([readFileSync(path, "utf8"), readFileSync(successor(path, gone), "utf8")]).toEqual([gone, taker]);
    rmSync(path);
    rmSync(successor(path, gone));
  });

  test("one that ends in the middle of it is succeeded, and nothing is left", () => {
    const path = join(folder, "chain.lock");
    const [first, second, third] = [ofGone("x"), ofGone("y"), ofGone("z")];
    writeFileSync(path, first);
    writeFileSync(successor(path, first), second);
    writeFileSync(successor(path, second), third);
    const release = tryFileLock(path);
    expect(readFileSync(path, "utf8")).toContain(` ${process.pid} `);
    expect(filesOf(path)).toEqual(["chain.lock"]);
    release!();
    expect(filesOf(path)).toEqual([]);
  });

  test("one that comes when another has taken the lock and given the name back waits", async () => {
    const path = join(folder, "late.lock");
    writeFileSync(path, ofGone("x"));
    let release: (() => void) | undefined;
    const late = acquireFileLock(
      path,
      () => {
        release = tryFileLock(path);
      },
      AbortSignal.timeout(300),
    );
    await expect(late).rejects.toThrow("aborted");
    expect(filesOf(path)).toEqual(["late.lock"]);
    release!();
    expect(filesOf(path)).toEqual([]);
  });
});

test("a lock of a process that is gone is taken over at once", async () => {
  const path = join(folder, "gone.lock");
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  writeFileSync(path, `${hostname()} ${pid} x ${SPACE}`);
  const release = await acquireFileLock(path);
  release();
  expect(existsSync(path)).toBe(false);
});

test("whoever does not wait has a lock that is free, or whose owner is gone, and no other", () => {
  const path = join(folder, "tried.lock");
  const release = tryFileLock(path);
  expect(release).toBeDefined();
  expect(tryFileLock(path)).toBeUndefined();
  release!();
  expect(existsSync(path)).toBe(false);
  // Left by an earlier process with the same number, as in a restarted container.
  writeFileSync(path, `${hostname()} ${process.pid} of-an-earlier-start ${SPACE}`);
  const second = tryFileLock(path);
  expect(second).toBeDefined();
  second!();
  const ofAnother = "another-machine 1 x";
  writeFileSync(path, ofAnother);
  expect(tryFileLock(path)).toBeUndefined();
  utimesSync(path, new Date(Date.now() - 120_000), new Date(Date.now() - 120_000));
  tryFileLock(path)!();
  expect(existsSync(path)).toBe(false);
});

test("a lock of another container of the same host name is alive while it is touched", () => {
  const path = join(folder, "container.lock");
  writeFileSync(path, `${hostname()} ${process.pid} x pid:[1]`);
  expect(tryFileLock(path)).toBeUndefined();
  utimesSync(path, new Date(Date.now() - 20_000), new Date(Date.now() - 20_000));
  tryFileLock(path)!();
  expect(existsSync(path)).toBe(false);
});
