/** Batches with a row that cannot be written for a while: a refused change has not happened, and is tried again. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import {
  answerLine,
  type BatchServiceTest,
  batchClient,
  batchLine as line,
  startBatchService,
} from "../../../test/helpers/batch-service.js";
import { until } from "../../../test/helpers/fake-server.js";
import { openDatabase } from "../store/database.js";
import type { BatchState } from "./record.js";
import type { SubmitLine } from "./run-line.js";

vi.mock("node:timers/promises", async (original) => {
  const actual = await original<typeof import("node:timers/promises")>();
  /** Shortens a batch's pauses. */
  const soon: typeof actual.setTimeout = (ms, ...rest) => actual.setTimeout(Math.min(ms ?? 0, 5), ...rest);
  return { ...actual, setTimeout: soon };
});

let service: BatchServiceTest;
afterEach(() => service[Symbol.asyncDispose]());

const { call, ended, start } = batchClient(() => service);

/** The database refuses to write this state, as on a full disk. @returns a function that makes room */
function fillDiskAt(state: BatchState): () => void {
  const database = openDatabase(service.folder);
  database.exec(
    `CREATE TRIGGER full BEFORE UPDATE ON batches WHEN NEW.state = '${state}' BEGIN SELECT RAISE(ABORT, 'full'); END`,
  );
  return () => {
    database.exec("DROP TRIGGER full");
    database.close();
  };
}

const standsStill = () =>
  until(() => service.lines.some(({ message }) => message === "a batch stands still"), "a batch that stands still");

/** Answers nothing before it is cancelled. */
const endless: SubmitLine = ({ cancellation }) =>
  new Promise((resolve) => cancellation.onCancel(() => resolve({ kind: "cancelled" })));

test("a disk that is full at the last write holds up the batch, whose files are there afterwards", async () => {
  service = await startBatchService();
  await call("GET", "/v1/files");
  const makeRoom = fillDiskAt("completed");
  const id = await start([line("a")]);
  await standsStill();
  expect((await call("GET", `/v1/batches/${id}`)).json).toMatchObject({ status: "finalizing", output_file_id: null });
  makeRoom();
  const { status, output_file_id: file } = await ended(id);
  expect(status).toBe("completed");
  expect((await call("GET", `/v1/files/${file}/content`)).status).toBe(200);
});

test("a cancellation that cannot be written is refused, and can be tried again", async () => {
  service = await startBatchService({ submit: endless });
  const id = await start([line("a")]);
  const isRunning = async () => (await call("GET", `/v1/batches/${id}`)).json.status === "in_progress";
  await vi.waitUntil(isRunning, { timeout: 5000, interval: 5 });
  const makeRoom = fillDiskAt("cancelling");
  const cancel = () => call("POST", `/v1/batches/${id}/cancel`);
  expect((await cancel()).status).toBe(500);
  expect((await cancel()).status).toBe(500);
  expect(await isRunning()).toBe(true);
  makeRoom();
  expect((await cancel()).json.status).toBe("cancelling");
  expect(await ended(id)).toMatchObject({ status: "cancelled" });
});

test("a batch that has lost its input while nothing can be written waits, and then fails", async () => {
  let answer: (() => void) | undefined;
  const submit: SubmitLine = async (_, sink) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return answerLine(sink, 200, {});
  };
  service = await startBatchService({ submit });
  const id = await start([line("a")]);
  const runs = join(service.folder, "batches/runs");
  await until(() => answer !== undefined, "a line under way");
  const makeRoom = fillDiskAt("failed");
  rmSync(join(runs, id, "index"));
  answer!();
  await standsStill();
  makeRoom();
  const { status, errors } = await ended(id);
  const message = `expected the gateway's file runs/${id}/index of the batch, got none`;
  expect([status, errors]).toMatchObject(["failed", { data: [{ code: "file_unreadable", message }] }]);
  await until(() => readdirSync(runs).length === 0, "the batch's folder to go");
});
