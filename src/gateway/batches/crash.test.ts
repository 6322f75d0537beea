/**
 * Batches of a gateway that is killed at any moment, again and again: at the end each custom_id is in the output once.
 */
import { readdirSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { answerLine, type BatchServiceTest, startBatchService, userOf } from "../../../test/helpers/batch-service.js";
import { cases } from "../../../test/helpers/long.js";
import type { SubmitLine } from "./run-line.js";

const bodyOf = (id: string) => ({ model: `m${id.length % 2}`, messages: [], max_tokens: 1, user: id });

/** Answers after a while, some lines with an error; at times the engine is gone. */
function submitter(numFailing: number): SubmitLine {
  let numSent = 0;
  return async (line, sink) => {
    // Counts by request, since requests sent together would otherwise fail together each time.
    const nth = ++numSent;
    await wait(nth % 3);
    if (line.cancellation.isCancelled) return { kind: "cancelled" };
    if (nth % 17 === 0) return answerLine(sink, 503, { error: {} });
    const number = Number(userOf(line).slice(1));
    if (number < numFailing) return answerLine(sink, 400, { error: { code: "invalid_parameter" } });
    return answerLine(sink, 200, { usage: { prompt_tokens: 2, completion_tokens: 1 }, user: userOf(line) });
  };
}

async function createOpenAi({ url }: BatchServiceTest, ids: readonly string[]): Promise<string> {
  const line = (id: string) =>
    JSON.stringify({ custom_id: id, method: "POST", url: "/v1/chat/completions", body: bodyOf(id) });
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new Blob([ids.map(line).join("\n")]), "in.jsonl");
  const file = (await (await fetch(`${url}/v1/files`, { method: "POST", body: form })).json()) as { id: string };
  const body = JSON.stringify({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
  return ((await (await fetch(`${url}/v1/batches`, { method: "POST", body })).json()) as { id: string }).id;
}

async function createAnthropic({ url }: BatchServiceTest, ids: readonly string[]): Promise<string> {
  const requests = ids.map((id) => ({ custom_id: id, params: bodyOf(id) }));
  const answer = await fetch(`${url}/v1/messages/batches`, { method: "POST", body: JSON.stringify({ requests }) });
  return ((await answer.json()) as { id: string }).id;
}

const get = async (url: string) => (await fetch(url)).json() as Promise<Record<string, unknown>>;

async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (let i = 0; i < 2000; i++) {
    const found = await look();
    if (found !== undefined) return found;
    await wait(5);
  }
  throw new Error("the batch did not end in 10 s");
}

const linesOf = async (url: string): Promise<readonly Record<string, unknown>[]> =>
  (await (await fetch(url)).text())
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));

/** An ended batch as a client reads it: the ids in all its files, and its count of succeeded lines. */
async function readOpenAi(url: string, id: string) {
  const batch = await until(async () => {
    const found = await get(`${url}/v1/batches/${id}`);
    return ["completed", "failed", "expired", "cancelled"].includes(String(found.status)) ? found : undefined;
  });
  const read = async (fileId: unknown) => (fileId === null ? [] : linesOf(`${url}/v1/files/${fileId}/content`));
  const [output, errors] = [await read(batch.output_file_id), await read(batch.error_file_id)];
  return { status: batch.status, counts: batch.request_counts, output, errors };
}

/** Cuts the log's last bytes, as a torn write would. */
function tear(folder: string, numBytes: number): void {
  const runs = join(folder, "batches/runs");
  for (const run of readdirSync(runs)) {
    const path = join(runs, run, "results");
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    if (size > 0) truncateSync(path, Math.max(0, size - numBytes));
  }
}

/** Kills the service after these times and continues in a copy of the disk. @returns the last service */
async function killed(first: BatchServiceTest, submit: SubmitLine, kills: readonly { ms: number; torn: number }[]) {
  let service = first;
  for (const { ms, torn } of kills) {
    await wait(ms);
    const folder = service.snapshot();
    tear(folder, torn);
    await service[Symbol.asyncDispose]();
    service = await startBatchService({ folder, submit });
  }
  return service;
}

const kill = fc.record({ ms: fc.integer({ min: 0, max: 60 }), torn: fc.nat(300) });
const life = {
  kills: fc.array(kill, { maxLength: 4 }),
  numLines: fc.integer({ min: 1, max: 60 }),
  numFailing: fc.nat(4),
};

test("OpenAI's: every custom_id once in output and errors together, whatever the moments of the kills", async () => {
  await fc.assert(
    fc.asyncProperty(fc.record(life), async ({ kills, numLines, numFailing }) => {
      const submit = submitter(numFailing);
      const ids = Array.from({ length: numLines }, (_, i) => `i${i}`);
      const first = await startBatchService({ submit });
      const id = await createOpenAi(first, ids);
      await using last = await killed(first, submit, kills);
      const { status, counts, output, errors } = await readOpenAi(last.url, id);
      const numErrors = Math.min(numFailing, numLines);
      expect(status).toBe("completed");
      expect(counts).toEqual({ total: numLines, completed: numLines - numErrors, failed: numErrors });
      expect([...output, ...errors].map((line) => line.custom_id).sort()).toEqual([...ids].sort());
      expect(errors.length).toBe(numErrors);
      // The log, its index and the second name of the input are gone.
      await until(async () => (readdirSync(join(last.folder, "batches/runs")).length === 0 ? true : undefined));
    }),
    { numRuns: cases(8, 25) },
  );
}, 120_000);

test("Anthropic's: every request has one result", async () => {
  await fc.assert(
    fc.asyncProperty(fc.record(life), async ({ kills, numLines, numFailing }) => {
      const submit = submitter(numFailing);
      const ids = Array.from({ length: numLines }, (_, i) => `i${i}`);
      const first = await startBatchService({ submit });
      const id = await createAnthropic(first, ids);
      await using last = await killed(first, submit, kills);
      const at = `${last.url}/v1/messages/batches/${id}`;
      await until(async () => ((await get(at)).processing_status === "ended" ? true : undefined));
      const results = await linesOf(`${at}/results`);
      expect(results.map((line) => line.custom_id).sort()).toEqual([...ids].sort());
    }),
    { numRuns: cases(4, 10) },
  );
}, 120_000);

test("a batch that is cancelled, then killed, ends as cancelled with every line in its files", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(kill, { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 0, max: 30 }),
      async (kills, cancelAfterMs) => {
        const answers = submitter(0);
        let cancel = () => {};
        const cancelled = new Promise<void>((resolve) => {
          cancel = resolve;
        });
        // On any machine, the batch is cancelled before it is over.
        const submit: SubmitLine = async (line, sink) => {
          if (Number(userOf(line).slice(1)) >= 100) await cancelled;
          return await answers(line, sink);
        };
        const ids = Array.from({ length: 200 }, (_, i) => `i${i}`);
        const first = await startBatchService({ submit });
        const id = await createOpenAi(first, ids);
        await wait(cancelAfterMs);
        expect((await fetch(`${first.url}/v1/batches/${id}/cancel`, { method: "POST" })).status).toBe(200);
        cancel();
        await using last = await killed(first, submit, kills);
        const { status, output, errors } = await readOpenAi(last.url, id);
        expect(status).toBe("cancelled");
        const all = [...output, ...errors].map((line) => line.custom_id);
        // A batch that was cancelled before its lines were known has none.
        if (all.length > 0) expect(all.sort()).toEqual([...ids].sort());
      },
    ),
    { numRuns: cases(3, 8) },
  );
}, 120_000);

test("a batch whose time runs out keeps its answers, and the rest are errors", async () => {
  let nowMs = Date.now();
  const submit: SubmitLine = async (line, sink) => {
    if (Number(userOf(line).slice(1)) < 5) return answerLine(sink, 200, {});
    return new Promise((resolve) => line.cancellation.onCancel(() => resolve({ kind: "cancelled" })));
  };
  const first = await startBatchService({ submit, nowMs: () => nowMs });
  const id = await createOpenAi(
    first,
    Array.from({ length: 30 }, (_, i) => `i${i}`),
  );
  await until(async () => {
    const { request_counts: counts } = await get(`${first.url}/v1/batches/${id}`);
    return (counts as { completed: number }).completed === 5 ? true : undefined;
  });
  const folder = first.snapshot();
  await first[Symbol.asyncDispose]();
  nowMs += 86_401_000;
  await using second = await startBatchService({ folder, submit, nowMs: () => nowMs });
  const { status, counts, output, errors } = await readOpenAi(second.url, id);
  expect(status).toBe("expired");
  expect(counts).toEqual({ total: 30, completed: 5, failed: 25 });
  expect([output.length, errors.length]).toEqual([5, 25]);
  expect(errors[0]).toMatchObject({ response: null, error: { code: "batch_expired" } });
  rmSync(folder, { recursive: true, force: true });
});
