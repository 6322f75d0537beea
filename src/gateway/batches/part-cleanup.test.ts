/** Cleanup of finished parts while the budget store or the provider is down, and after a restart. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { recordingLogger, until } from "../../../test/helpers/fake-server.js";
import { MillraceError } from "../../core/errors.js";
import type { LineEstimate } from "../budget/handed-limits.js";
import type { Amounts } from "../budget/store.js";
import type { BatchEndpoint, Look } from "../provider-batches/endpoint.js";
import { Refused } from "../provider-batches/provider-http.js";
import { BatchFolders } from "./folders.js";
import { PartCleanup } from "./part-cleanup.js";

const ID = "batch_1/0/0";
const NOTHING = { money: 0, tokens: 0 };
const ESTIMATE = { amounts: { money: 10, tokens: 0 } } as LineEstimate;

let folders: BatchFolders;
let cleanup: PartCleanup;
let isStoreDown = false;
let nowMs = 0;
/** The provider's answer to a deletion; undefined: the file is deleted. */
let answer: (name: string) => Error | undefined;
let isProviderKnown = true;
/** The provider's state of a batch. */
let look: () => Look;
const looks: string[] = [];
const reserved = new Set<string>();
const spent: Amounts[] = [];
const asked: string[] = [];
const { logger, lines } = recordingLogger();

const assertUp = () => {
  if (isStoreDown) throw new MillraceError("budget_store_failed", "expected the budget store's answer, got none");
};
const budget = {
  reserve: async (id: string) => {
    // The store makes the reservation, even if its answer is lost.
    reserved.add(id);
    assertUp();
  },
  shrink: async () => {},
  release: async (id: string, used: Amounts) => {
    assertUp();
    if (reserved.delete(id)) spent.push(used);
  },
};
const endpoint = {
  look: async (batchId: string) => {
    looks.push(batchId);
    return look();
  },
  remove: async (name: string) => {
    asked.push(name);
    const error = answer(name);
    if (error !== undefined) throw error;
  },
} as unknown as BatchEndpoint;

async function open(): Promise<void> {
  const handed = { budget, endpointOf: () => (isProviderKnown ? endpoint : undefined) };
  cleanup = await PartCleanup.open({ folders, handed, logger, nowMs: () => nowMs });
}
const notes = () => readdirSync(folders.cleanups);
const numLogged = (text: string) => lines.filter(({ message }) => message.includes(text)).length;
/** Tends as often as the batches' sweep would, until no task is left. */
async function tendForHours(hours: number): Promise<void> {
  for (const endMs = nowMs + hours * 3_600_000; nowMs < endMs && notes().length > 0; nowMs += 60_000) {
    cleanup.tend();
    await cleanup.settled();
  }
}

beforeEach(async () => {
  folders = new BatchFolders(mkdtempSync(join(tmpdir(), "millrace-cleanup-")));
  await folders.create();
  [isStoreDown, isProviderKnown, nowMs, answer] = [false, true, 0, () => undefined];
  reserved.clear();
  look = () => ({ kind: "running" });
  for (const list of [spent, asked, lines, looks]) list.length = 0;
  await open();
});
afterEach(async () => {
  await cleanup.close();
  rmSync(folders.root, { recursive: true, force: true });
});

test("a reservation ends when the store is back, also after a restart, once", async () => {
  reserved.add(ID);
  isStoreDown = true;
  await cleanup.release(ID, { money: 7, tokens: 0 });
  await open();
  await tendForHours(0.1);
  expect([reserved.size, numLogged("is ended later")]).toEqual([1, 1]);
  expect(numLogged("wait for the budget store")).toBeGreaterThan(0);
  isStoreDown = false;
  await tendForHours(0.1);
  await open();
  await tendForHours(0.1);
  expect([reserved.size, spent, notes()]).toEqual([0, [{ money: 7, tokens: 0 }], []]);
});

test.each(["up", "down"])("a part that is made again has the reservation for itself; the store is %s", async (how) => {
  isStoreDown = true;
  await cleanup.reserve(ID, ESTIMATE).catch(() => {});
  await cleanup.release(ID, NOTHING);
  isStoreDown = how === "down";
  await cleanup.reserve(ID, ESTIMATE).catch(() => {});
  isStoreDown = false;
  await open();
  await tendForHours(0.1);
  expect([reserved.size, notes()]).toEqual([1, []]);
});

test("a note whose writing a crash has stopped is none", async () => {
  reserved.add(ID);
  const note = JSON.stringify({ kind: "release", id: ID, spent: NOTHING });
  writeFileSync(join(folders.cleanups, "release-x.json.new"), note);
  writeFileSync(join(folders.cleanups, "release-y.json"), note.slice(0, 20));
  await open();
  cleanup.tend();
  await cleanup.settled();
  expect([reserved.size, notes()]).toEqual([1, []]);
});

test("a note that cannot be read is logged, and holds up nothing", async () => {
  mkdirSync(join(folders.cleanups, "release-z.json"));
  await open();
  expect(numLogged("could not read")).toBe(1);
  expect(notes()).toEqual(["release-z.json"]);
});

test("files are deleted at once, and those that are gone are", async () => {
  answer = (name) => (name === "b" ? new Refused(404, "none", undefined) : undefined);
  await cleanup.remove(ID, "m", ["a", "b"]);
  await until(() => notes().length === 0, "no note");
  expect([asked, lines]).toEqual([["a", "b"], []]);
});

test("files that stay are tried again, ever later, ten times, also after a restart", async () => {
  answer = (name) => (name === "b" ? new Refused(500, "down", undefined) : undefined);
  await cleanup.remove(ID, "m", ["a", "b"]);
  await cleanup.settled();
  expect(asked).toEqual(["a", "b"]);
  nowMs += 59_000;
  cleanup.tend();
  await cleanup.settled();
  expect(asked).toEqual(["a", "b"]);
  await open();
  await tendForHours(10);
  expect(asked).toEqual(["a", ...Array(10).fill("b")]);
  expect([numLogged("are deleted later"), numLogged("files stay at its provider"), notes()]).toEqual([9, 1, []]);
});

test("files of a model that is gone are waited for, and then given up", async () => {
  isProviderKnown = false;
  await cleanup.remove(ID, "m", ["a"]);
  await tendForHours(1);
  isProviderKnown = true;
  await tendForHours(1);
  expect([asked, notes()]).toEqual([["a"], []]);
});

test("files of a batch that was given up are deleted once it is over, with its results, also after a restart", async () => {
  await cleanup.remove(ID, "m", ["in"], { batchId: "b" });
  await tendForHours(5);
  await open();
  await tendForHours(5);
  expect([asked, notes().length]).toEqual([[], 1]);
  expect(looks.length).toBeGreaterThan(15);
  expect(looks.length).toBeLessThan(25);
  look = () => ({ kind: "ended", results: ["out", "errors"] });
  await tendForHours(1);
  expect([asked, notes(), lines]).toEqual([["in", "out", "errors"], [], []]);
});

test.each<[string, () => Look]>([
  ["failed", () => ({ kind: "failed", message: "no", isForNow: false })],
  [
    "is unknown",
    () => {
      throw new Refused(404, "none", undefined);
    },
  ],
])("files of a batch that was given up and %s are deleted", async (_, says) => {
  look = says;
  await cleanup.remove(ID, "m", ["in"], { batchId: "b" });
  await tendForHours(1);
  expect([asked, notes()]).toEqual([["in"], []]);
});

test.each<[string, string | undefined, () => Look]>([
  ["never ends", "b", () => ({ kind: "running" })],
  [
    "cannot be asked for",
    "b",
    () => {
      throw new Refused(500, "down", undefined);
    },
  ],
  ["may not exist", undefined, () => ({ kind: "running" })],
])("files of a batch that %s are deleted after the day that it may take", async (_, batchId, says) => {
  look = says;
  await cleanup.remove(ID, "m", ["in"], { batchId });
  await tendForHours(24);
  expect([asked, notes().length]).toEqual([[], 1]);
  await tendForHours(2);
  expect([asked, notes()]).toEqual([["in"], []]);
});
