/**
 * Lines for a provider's batch endpoint, while the gateway stops at any moment, or the provider never ends.
 * size: all tests share one service, provider and budget, and each changes single steps
 */
import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
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
import type { BatchEndpoint } from "../provider-batches/endpoint.js";
import { batchEndpointOf } from "../provider-batches/endpoints.js";
import { Refused } from "../provider-batches/provider-http.js";
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
/** Parts of the provider's endpoint, of lines and of budgets that a test replaces. */
let changed: (endpoint: BatchEndpoint, model: string) => Partial<BatchEndpoint>;
let prepared: (id: string) => Promise<number>;
let booked: () => Promise<unknown>;
let budget: Partial<HandedModels["budget"]>;
let pauses: HandedModels["pauses"];
/** Reservations by their ids, and what was spent when they were released. */
const reserved = new Map<string, Amounts>();
const released: Amounts[] = [];

/** Reserves 10 nano-dollars for every line, unless a test says otherwise. */
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
      responses: "pass",
      dropsParams: false,
      defaultMaxTokens: 10,
    },
    provider.url,
  )!;
  return {
    isHanded: () => true,
    endpointOf: (model) => {
      const changes = changed(endpoint, model);
      return new Proxy(endpoint, {
        get: (real, name: keyof BatchEndpoint) => {
          const found = changes[name] ?? real[name];
          return typeof found === "function" ? found.bind(real) : found;
        },
      });
    },
    prepare: async ({ body }) => {
      const money = await prepared(String(body.user));
      const asked = { model: "gpt", messages: [{ role: "user", content: "Hi" }], user: body.user };
      // The provider refuses this field.
      if (body.user === "odd") Object.assign(asked, { temperature: 9 });
      return {
        path: "/v1/chat/completions",
        headers: {},
        price: undefined,
        body: Buffer.from(JSON.stringify(asked)),
        estimate: { amounts: { money, tokens: 0 } } as LineEstimate,
      };
    },
    book: async (_, answer, sink) => {
      numBooked++;
      await booked();
      if (!(answer instanceof MillraceError)) answer.isTaken = true;
      if (answer instanceof MillraceError) throw answer;
      return answerLine(sink, answer.status, JSON.parse(answer.body.toString("utf8")));
    },
    budget: {
      reserve: async (id, { amounts }) => void reserved.set(id, amounts),
      shrink: async (id, amounts) => void reserved.set(id, amounts),
      release: async (id, spent) => {
        if (reserved.delete(id)) released.push(spent);
      },
      ...budget,
    },
    pauses,
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

/** Kills the gateway, and continues with the files on its disk, which a test may change. */
async function restart(change: (folder: string) => void = () => {}): Promise<void> {
  const folder = service.snapshot();
  await service[Symbol.asyncDispose]();
  change(folder);
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
  changed = () => ({});
  prepared = async () => 10;
  booked = async () => {};
  budget = {};
  pauses = { firstMs: 2, mostMs: 10, settleMs: 100 };
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

const runFolder = (id: string, folder = service.folder) => join(folder, "batches/runs", id);
const sent = (id: string, number: number, model = 0) => join(runFolder(id), `part-${model}-${number}.json`);

/** Changes the budget, which the gateway reads when it starts. */
async function reopen(): Promise<void> {
  await service[Symbol.asyncDispose]();
  service = await open();
}

/** Number of files that the provider ever had. */
const numFiles = () => batches.files.size + batches.deleted.size;

const odd = (status: number) => new Refused(status, "odd", undefined);
/** Fails the first time. */
function once<T extends unknown[], R>(thrown: Error, real: (...args: T) => R): (...args: T) => R {
  let isFirst = true;
  return (...args) => {
    if (!isFirst) return real(...args);
    isFirst = false;
    throw thrown;
  };
}

test.each(["look", "results"] as const)("an odd status of %s loses no result that is paid for", async (name) => {
  for (const status of [302, 404]) {
    const failing = once(odd(status), (endpoint: BatchEndpoint, ...args: [string, AbortSignal]) =>
      (endpoint[name] as (...args: [string, AbortSignal]) => unknown).apply(endpoint, args),
    );
    changed = (endpoint) => ({ [name]: (...args: [string, AbortSignal]) => failing(endpoint, ...args) });
    const batch = await client.ended(await client.start([batchLine("a"), batchLine("b")]));
    expect(batch.request_counts).toEqual({ total: 2, completed: 2, failed: 0 });
  }
  expect(batches.ran).toHaveLength(4);
});

test("results that never come are given up: they are charged, and the provider is told", async () => {
  batches.isHeld = true;
  changed = () => ({
    look: async () => {
      throw odd(404);
    },
  });
  const id = await client.start([batchLine("a"), batchLine("b")]);
  await until(() => batches.batches.length === 1);
  nowMs = Date.now() + DAY_MS + 1000;
  await restart();
  await until(() => batches.batches[0]!.status === "cancelling");
  nowMs += 16 * 60_000;
  expect((await client.ended(id)).status).toBe("expired");
  expect(released).toEqual([{ money: 20, tokens: 0 }]);
});

test("a refused file ends its lines, and a file that the provider has lost is uploaded again", async () => {
  changed = (endpoint) => ({ upload: endpoint.upload, send: () => Promise.reject(odd(400)) });
  const refused = await client.ended(await client.start([batchLine("a")]));
  expect(refused.request_counts).toEqual({ total: 1, completed: 0, failed: 1 });
  expect(numFiles()).toBe(1);
  batches.nextFailure = { code: "token_limit_exceeded", message: "Full." };
  changed = (endpoint) => ({
    look: async (id, signal) => {
      const look = await endpoint.look(id, signal);
      if (look.kind === "failed") batches.files.clear();
      return look;
    },
  });
  const batch = await client.ended(await client.start([batchLine("b")]));
  expect(batch.request_counts).toEqual({ total: 1, completed: 1, failed: 0 });
});

test("a cancellation while the last line is booked leaves nothing reserved", async () => {
  let id = "";
  booked = () => client.call("POST", `/v1/batches/${id}/cancel`, {});
  id = await client.start([batchLine("a")]);
  expect((await client.ended(id)).status).toBe("cancelled");
  expect([reserved.size, released.length]).toEqual([0, 1]);
});

test.each(["cancelled", "killed and cancelled", "killed"])("a reservation in doubt is ended: %s", async (how) => {
  let isDown = true;
  budget = {
    reserve: async (id, { amounts }) => {
      reserved.set(id, amounts);
      if (isDown) throw new MillraceError("budget_store_failed", "expected the budget store's answer, got none");
    },
  };
  await reopen();
  const id = await client.start([batchLine("a")]);
  await until(() => reserved.size === 1);
  if (how !== "cancelled") await restart();
  if (how === "killed") isDown = false;
  else await client.call("POST", `/v1/batches/${id}/cancel`, {});
  expect((await client.ended(id)).status).toBe(how === "killed" ? "completed" : "cancelled");
  expect(reserved.size).toBe(0);
});

test.each(["ended", "cancelled", "over its time"])("no batch waits for the budget store: %s", async (how) => {
  let isDown = true;
  const release = async (id: string, spent: Amounts) => {
    if (isDown) throw new MillraceError("budget_store_failed", "expected the budget store's answer, got none");
    if (reserved.delete(id)) released.push(spent);
  };
  budget = { release };
  batches.isHeld = how !== "ended";
  await reopen();
  const id = await client.start([batchLine("a"), batchLine("b")]);
  await until(() => batches.batches[0] !== undefined && batches.batches[0].status !== "validating");
  if (how === "cancelled") await client.call("POST", `/v1/batches/${id}/cancel`, {});
  if (how === "over its time") {
    nowMs = Date.now() + DAY_MS + 1000;
    await restart();
  }
  const status = { ended: "completed", cancelled: "cancelled", "over its time": "expired" }[how];
  expect((await client.ended(id)).status).toBe(status);
  expect(reserved.size).toBe(1);
  const messages = () => service.lines.map(({ message }) => message);
  expect(messages()).toContain("the reservation of a part of a batch is ended later");
  // A killed gateway does not forget it, nor one whose store stays away.
  await restart();
  await until(() => messages().includes("reservations of batches wait for the budget store"));
  expect(reserved.size).toBe(1);
  isDown = false;
  await restart();
  await until(() => reserved.size === 0);
  expect(released).toEqual([{ money: 0, tokens: 0 }]);
  await until(() => readdirSync(join(service.folder, "batches/cleanups")).length === 0);
});

test("a batch that appears long after its request broke is not sent a second time", async () => {
  let isFirst = true;
  changed = (endpoint) => ({
    send: async (file, signal) => {
      if (!isFirst) return await endpoint.send(file, signal);
      isFirst = false;
      await wait(150);
      setTimeout(() => void endpoint.send(file, signal), 50);
      throw new Error("socket hang up");
    },
  });
  expect((await client.ended(await client.start([batchLine("a")]))).status).toBe("completed");
  await wait(100);
  expect([batches.batches.length, batches.ran.length]).toEqual([1, 1]);
});

test("a file counts as not sent only behind as many lists as the provider's take", async () => {
  let numFinds = 0;
  const numFindsAtSend: number[] = [];
  changed = (endpoint) => ({
    numLists: 4,
    find: async (file, signal) => {
      numFinds++;
      return await endpoint.find(file, signal);
    },
    send: async (file, signal) => {
      numFindsAtSend.push(numFinds);
      if (numFindsAtSend.length === 1) throw new Error("socket hang up");
      return await endpoint.send(file, signal);
    },
  });
  expect((await client.ended(await client.start([batchLine("a")]))).status).toBe("completed");
  expect(numFindsAtSend).toHaveLength(2);
  expect(numFindsAtSend[1]).toBeGreaterThanOrEqual(4);
});

test("a lost answer behind a batch without room is not taken for that batch, which has the same file", async () => {
  batches.nextFailure = { code: "token_limit_exceeded", message: "Full." };
  let numSends = 0;
  changed = (endpoint) => ({
    send: async (file, signal) => {
      if (++numSends !== 2) return await endpoint.send(file, signal);
      setTimeout(() => void endpoint.send(file, signal), 50);
      throw new Error("socket hang up");
    },
  });
  expect((await client.ended(await client.start([batchLine("a")]))).status).toBe("completed");
  expect(batches.batches.map(({ status }) => status)).toEqual(["failed", "completed"]);
  expect(numFiles()).toBe(2);
});

test("a cancellation that fails is asked for again", async () => {
  batches.isHeld = true;
  const cancel = once(odd(503), (endpoint: BatchEndpoint, id: string, signal: AbortSignal) =>
    endpoint.cancel(id, signal),
  );
  changed = (endpoint) => ({ cancel: async (id, signal) => await cancel(endpoint, id, signal) });
  const id = await client.start([batchLine("a")]);
  await until(() => batches.batches[0]?.status === "in_progress");
  await client.call("POST", `/v1/batches/${id}/cancel`, {});
  expect((await client.ended(id)).status).toBe("cancelled");
  expect(batches.batches[0]!.status).toBe("cancelled");
});

test("where the provider has no room, the file goes there once, and each batch waits longer", async () => {
  pauses = { firstMs: 5, mostMs: 1000, settleMs: 100 };
  changed = () => ({ look: async () => ({ kind: "failed", message: "Full.", isForNow: true }) });
  await reopen();
  await client.start([batchLine("a")]);
  await wait(1000);
  // 5, 10, 20, ... 640 ms
  expect(batches.batches.length).toBeGreaterThan(1);
  expect(batches.batches.length).toBeLessThan(9);
  expect(batches.files.size).toBe(1);
});

test("results that a power cut takes are asked for again", async () => {
  let isHeld = true;
  changed = (endpoint, model) =>
    model === "m2" && isHeld ? { look: async () => ({ kind: "running" }) } : { look: endpoint.look };
  const id = await client.start([batchLine("a", { model: "m1" }), batchLine("b", { model: "m2" })]);
  const stage = () => {
    const files = readdirSync(runFolder(id));
    return files.includes("part-0-0.json") ? JSON.parse(readFileSync(sent(id, 0), "utf8")).stage : undefined;
  };
  await until(() => stage() === "over");
  await restart((folder) => truncateSync(join(runFolder(id, folder), "results"), 0));
  isHeld = false;
  expect((await client.ended(id)).request_counts).toEqual({ total: 2, completed: 2, failed: 0 });
  expect(batches.ran).toHaveLength(2);
});

test("a gateway that stops while a checker is away leaves the line for the next one", async () => {
  let [isDown, numAsked] = [true, 0];
  prepared = async () => {
    numAsked++;
    if (isDown) throw new MillraceError("upstream_failed", "expected a checker, got none");
    return 10;
  };
  const id = await client.start([batchLine("a")]);
  await until(() => numAsked === 1);
  await wait(20);
  await service.service.close();
  expect(numAsked).toBe(1);
  isDown = false;
  await restart();
  expect((await client.ended(id)).request_counts).toEqual({ total: 1, completed: 1, failed: 0 });
});

test("a batch fails whose part cannot be read, or whose index is gone: what its open lines may cost is charged", async () => {
  let numBooked = 0;
  booked = async () => void numBooked++;
  batches.isHeld = true;
  for (const lost of ["part-0-0.json", "index"]) {
    released.length = 0;
    const [numBefore, wasBooked] = [batches.batches.length, numBooked];
    changed = (endpoint) => ({
      async *results(name, signal) {
        for await (const chunk of endpoint.results(name, signal))
          yield Buffer.from(`${String(chunk).split("\n")[0]}\n`);
        await wait(1e6, undefined, { signal });
      },
    });
    const id = await client.start([batchLine("a"), batchLine("b")]);
    batches.isHeld = false;
    await until(() => batches.batches.length > numBefore && numBooked > wasBooked);
    await wait(50);
    await restart((folder) => {
      const path = join(runFolder(id, folder), lost);
      if (lost === "index") rmSync(path);
      else writeFileSync(path, "");
    });
    expect((await client.ended(id)).status).toBe("failed");
    expect([reserved.size, released]).toEqual([0, [{ money: 10, tokens: 0 }]]);
  }
});

test("what an open line has reserved stays reserved while others come", async () => {
  const shrunk: Amounts[] = [];
  prepared = async (id) => (id === "i100" ? 1_000_000 : 10);
  budget = { shrink: async (_, amounts) => void shrunk.push(amounts) };
  await reopen();
  const lines = Array.from({ length: 101 }, (_, i) => batchLine(`i${i}`));
  await client.ended(await client.start(lines));
  expect(shrunk).toEqual([{ money: 1_000_000, tokens: 0 }]);
});

const filesOf = (index: number) => {
  const { input_file_id: input, output_file_id: output, error_file_id: error } = batches.batches[index]!;
  return [input, output, error].filter((each) => each !== null);
};
const logged = (message: string) => service.lines.filter((line) => line.message === message);

test("the provider's files of a batch are deleted when it is over, and not before", async () => {
  const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  let numDeleted: number | undefined;
  const append = vi.spyOn(ResultLog.prototype, "append").mockImplementationOnce(async () => {
    numDeleted = batches.deleted.size;
    throw full;
  });
  try {
    const id = await client.start([batchLine("a"), batchLine("odd")]);
    const batch = await client.ended(id);
    expect(batch.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
    expect(numDeleted).toBe(0);
    await until(() => batches.files.size === 0);
    expect([...batches.deleted.keys()].toSorted()).toEqual(filesOf(0).toSorted());
    expect(batches.deleted.size).toBe(3);
    expect(await idsIn(batch.output_file_id)).toEqual(["a"]);
    await until(() => readdirSync(join(service.folder, "batches/cleanups")).length === 0);
  } finally {
    append.mockRestore();
  }
});

test("the file of a batch that is cancelled before it is sent is deleted", async () => {
  changed = () => ({ send: () => Promise.reject(odd(503)) });
  const id = await client.start([batchLine("a")]);
  await until(() => batches.files.size === 1);
  await client.call("POST", `/v1/batches/${id}/cancel`, {});
  expect((await client.ended(id)).status).toBe("cancelled");
  await until(() => batches.files.size === 0);
});

test("the file of a batch that is given up stays until the provider's is over", async () => {
  batches.isStuck = true;
  const id = await client.start([batchLine("a")]);
  await until(() => batches.batches.length === 1);
  nowMs = Date.now() + DAY_MS + 16 * 60_000;
  await restart();
  await until(() => batches.batches[0]!.status === "cancelling");
  nowMs += 16 * 60_000;
  expect((await client.ended(id)).status).toBe("expired");
  await wait(20);
  expect([batches.files.size, logged("a part's files at its provider are deleted later")]).toEqual([1, []]);
  batches.batches[0]!.status = "cancelled";
  nowMs += 31 * 60_000;
  await restart();
  await until(() => batches.files.size === 0);
});
