/** Lines that a provider's batch endpoint answers, whose gateway stops at any moment, or whose provider never ends. */
import { rmSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  answerLine,
  type BatchServiceTest,
  batchClient,
  batchLine,
  startBatchService,
} from "../../../test/helpers/batch-service.js";
import { cases } from "../../../test/helpers/long.js";
import { OpenaiBatches } from "../../../test/helpers/providers/openai-batches.js";
import { startOpenaiServer } from "../../../test/helpers/providers/openai-server.js";
import type { ProviderServer } from "../../../test/helpers/providers/provider-server.js";
import { MillraceError } from "../../core/errors.js";
import type { LineEstimate } from "../budget/handed-limits.js";
import type { Amounts } from "../budget/store.js";
import { batchEndpointOf } from "../provider-batches/endpoints.js";
import type { HandedModels } from "./handed-models.js";
import { ResultLog } from "./result-log.js";

const KEY = "sk-test-0123456789abcdef";
const DAY_MS = 86_400_000;

let batches: OpenaiBatches;
let provider: ProviderServer;
let service: BatchServiceTest;
let nowMs: number | undefined;
let isCallerGone = false;
let numBooked = 0;
/** Reservations by their ids, and what was spent when they were released. */
const reserved = new Map<string, Amounts>();
const released: Amounts[] = [];

/** Every line is reserved 10 nano-dollars for. */
function handedModels(): HandedModels {
  const endpoint = batchEndpointOf(
    {
      engine: "openai",
      basePath: "/v1",
      maxTokensName: "max_tokens",
      apiKey: KEY,
      aws: undefined,
      bedrockApi: "converse",
      apiVersion: undefined,
      thinking: "effort",
      dropsParams: false,
      defaultMaxTokens: 10,
    },
    provider.url,
  );
  return {
    isHanded: () => true,
    endpointOf: () => endpoint,
    prepare: async ({ body }) => {
      const asked = { model: "gpt", messages: [{ role: "user", content: "Hi" }], user: body.user };
      return {
        path: "/v1/chat/completions",
        headers: {},
        body: Buffer.from(JSON.stringify(asked)),
        estimate: { amounts: { money: 10, tokens: 0 } } as LineEstimate,
      };
    },
    book: async (_, answer, sink) => {
      numBooked++;
      if (answer instanceof MillraceError) throw answer;
      return answerLine(sink, answer.status, JSON.parse(answer.body.toString("utf8")));
    },
    budget: {
      reserve: async (id, { amounts }) => void reserved.set(id, amounts),
      shrink: async (id, amounts) => void reserved.set(id, amounts),
      release: (id, spent) => {
        reserved.delete(id);
        released.push(spent);
      },
    },
    pauses: { firstMs: 2, mostMs: 10, settleMs: 100 },
  };
}

const open = (folder?: string) =>
  startBatchService({
    ...(folder === undefined ? {} : { folder }),
    handed: handedModels(),
    submit: () => Promise.reject(new Error("expected no line to be sent as a request")),
    nowMs: () => nowMs ?? Date.now(),
    callerOf: ({ tenant }) => {
      if (isCallerGone) throw new MillraceError("invalid_api_key", "expected a key, got none");
      return { tenant };
    },
  });

/** Stops the gateway where it is, and goes on with what is on its disk. */
async function restart(): Promise<void> {
  await service.service.close();
  const folder = service.snapshot();
  await service[Symbol.asyncDispose]();
  service = await open(folder);
}

const client = batchClient(() => service);
const idsIn = async (fileId: unknown): Promise<string[]> => {
  if (fileId === null) return [];
  const { text } = await client.call("GET", `/v1/files/${fileId}/content`);
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line).custom_id);
};
const until = async (isSo: () => boolean): Promise<void> => {
  for (let i = 0; i < 1000 && !isSo(); i++) await wait(5);
  expect(isSo()).toBe(true);
};

beforeEach(async () => {
  nowMs = undefined;
  isCallerGone = false;
  numBooked = 0;
  reserved.clear();
  released.length = 0;
  batches = new OpenaiBatches();
  provider = await startOpenaiServer({ keys: [KEY], batches });
  service = await open();
});
afterEach(async () => {
  const { folder } = service;
  await service[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test("whenever the gateway stops, each line is handed over once, and has one result", async () => {
  const stops = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 6 });
  const lost = fc.constantFrom<"broken" | undefined>("broken", undefined);
  await fc.assert(
    fc.asyncProperty(stops, lost, fc.integer({ min: 1, max: 40 }), async (stopsMs, nextLost, numLines) => {
      const [numBefore, numBatches] = [batches.ran.length, batches.batches.length];
      batches.nextLost = nextLost;
      const ids = Array.from({ length: numLines }, (_, i) => `i${i}`);
      const id = await client.start(ids.map((each) => batchLine(each)));
      for (const ms of stopsMs) {
        await wait(ms);
        await restart();
      }
      const batch = await client.ended(id);
      expect(batch.request_counts).toEqual({ total: numLines, completed: numLines, failed: 0 });
      expect((await idsIn(batch.output_file_id)).sort()).toEqual([...ids].sort());
      expect(batches.ran.length - numBefore).toBe(numLines);
      expect(batches.batches.length - numBatches).toBe(1);
      expect(reserved.size).toBe(0);
    }),
    { numRuns: cases(10, 60) },
  );
}, 120_000);

test("when the day is over, the provider's batch is cancelled, and its lines have expired", async () => {
  batches.isHeld = true;
  const id = await client.start([batchLine("a"), batchLine("b")]);
  await until(() => batches.batches[0]?.status === "in_progress");
  nowMs = Date.now() + DAY_MS + 1000;
  await restart();
  const batch = await client.ended(id);
  expect(batch).toMatchObject({ status: "expired", request_counts: { total: 2, completed: 0, failed: 2 } });
  expect(batches.batches[0]!.status).toBe("cancelled");
  expect(released).toEqual([{ money: 0, tokens: 0 }]);
});

test("a provider that never ends is given up, and what it may charge stays charged", async () => {
  batches.isStuck = true;
  const id = await client.start([batchLine("a"), batchLine("b")]);
  await until(() => batches.batches.length === 1);
  nowMs = Date.now() + DAY_MS + 1000;
  await restart();
  await until(() => batches.batches[0]!.status === "cancelling");
  expect((await client.call("GET", `/v1/batches/${id}`)).json.status).toBe("finalizing");
  nowMs += 16 * 60_000;
  const batch = await client.ended(id);
  expect(batch).toMatchObject({ status: "expired", request_counts: { total: 2, completed: 0, failed: 2 } });
  expect(released).toEqual([{ money: 20, tokens: 0 }]);
  expect(service.lines.map(({ message }) => message)).toContain(
    "the provider's batch did not end in time; its lines are charged as estimated",
  );
});

test("answers that are paid for are given, although the key is gone meanwhile", async () => {
  batches.isHeld = true;
  const id = await client.start([batchLine("a")]);
  await until(() => batches.batches[0]?.status === "in_progress");
  isCallerGone = true;
  batches.isHeld = false;
  expect((await client.ended(id)).request_counts).toEqual({ total: 1, completed: 1, failed: 0 });
});

test("a line is booked once, although its result cannot be kept for a while", async () => {
  const append = vi.spyOn(ResultLog.prototype, "append");
  const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  for (let i = 0; i < 3; i++) append.mockRejectedValueOnce(full);
  try {
    const id = await client.start([batchLine("a")]);
    expect((await client.ended(id)).request_counts).toEqual({ total: 1, completed: 1, failed: 0 });
    expect([append.mock.calls.length, numBooked]).toEqual([4, 1]);
  } finally {
    append.mockRestore();
  }
});
