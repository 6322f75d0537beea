/** Lines of a batch that the gateway runs itself: the lines that run again, are given up, or wait. */
import { afterEach, expect, test } from "vitest";
import {
  answerLine,
  type BatchServiceTest,
  batchClient,
  IDLE,
  batchLine as line,
  startBatchService,
  userOf,
} from "../../../test/helpers/batch-service.js";
import { until } from "../../../test/helpers/fake-server.js";
import { MillraceError } from "../../core/errors.js";
import type { SubmitLine } from "./run-line.js";

let service: BatchServiceTest;
afterEach(() => service[Symbol.asyncDispose]());

const { call, ended, start } = batchClient(() => service);

test("lines are sent again while the model is away or its queue full, without a limit", async () => {
  let numSent = 0;
  const submit: SubmitLine = async (_, sink) => {
    numSent++;
    if (numSent === 1) throw new MillraceError("no_instance_ready", "expected a ready instance, got none");
    if (numSent === 2) throw new MillraceError("queue_full", "expected room, got none", { retryAfterSeconds: 1 });
    if (numSent === 3) return answerLine(sink, 503, {});
    return answerLine(sink, 200, {});
  };
  service = await startBatchService({ submit });
  const batch = await ended(await start([line("a")]));
  expect([numSent, batch.request_counts]).toEqual([4, { total: 1, completed: 1, failed: 0 }]);
});

test("lines are given up where they may be the reason, with the engine's own answer", async () => {
  let numSent = 0;
  const submit: SubmitLine = async (sent, sink) => {
    if (userOf(sent) === "well") return answerLine(sink, 200, {});
    return answerLine(sink, 500, { error: { attempt: ++numSent } });
  };
  service = await startBatchService({ submit });
  const batch = await ended(await start([line("poison"), line("well")]));
  expect(batch.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
  const { text } = await call("GET", `/v1/files/${batch.error_file_id}/content`);
  expect(JSON.parse(text)).toMatchObject({
    custom_id: "poison",
    response: { status_code: 500, body: { error: { attempt: 4 } } },
  });
}, 30_000);

test("lines of a tenant beyond its limits wait as long as they are told; without a budget they are errors", async () => {
  let numSent = 0;
  const submit: SubmitLine = async (sent, sink) => {
    if (userOf(sent) === "spent") throw new MillraceError("grammar_budget", "expected a budget, got none");
    if (++numSent > 1) return answerLine(sink, 200, {});
    throw new MillraceError("grammar_budget", "expected fewer requests, got more", { retryAfterSeconds: 0.2 });
  };
  service = await startBatchService({ submit });
  const batch = await ended(await start([line("limited"), line("spent")]));
  expect(batch.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
});

test("lines wait for a budget that others have reserved", async () => {
  let numSent = 0;
  const submit: SubmitLine = async (sent, sink) => {
    if (userOf(sent) !== "spent" && ++numSent > 2) return answerLine(sink, 200, {});
    sent.record.isPayableLater = userOf(sent) !== "spent";
    throw new MillraceError("budget_exceeded", "expected a budget, got none");
  };
  service = await startBatchService({ submit });
  const batch = await ended(await start([line("early"), line("spent")]));
  expect(batch.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
});

test("lines wait for seats that others need, and give back those that others wait for", async () => {
  let load = { ...IDLE, seats: 4 };
  let numLooks = 0;
  let isEndless = true;
  const underWay = new Set<() => void>();
  const submit: SubmitLine = (sent, sink) =>
    new Promise((resolve) => {
      const answer = () => {
        underWay.delete(answer);
        resolve(answerLine(sink, 200, {}));
      };
      underWay.add(answer);
      sent.cancellation.onCancel(() => {
        underWay.delete(answer);
        resolve({ kind: "cancelled" });
      });
      if (!isEndless) answer();
    });
  service = await startBatchService({
    submit,
    load: () => {
      numLooks++;
      return { ...load, numInFlight: load.numInFlight + underWay.size };
    },
  });
  /** Lines begin and stop at a look at the load, so the test counts looks and does not watch the clock. */
  const isUnderWayAndStaysSo = async (count: number) => {
    await until(() => underWay.size === count, `lines under way: ${count}`);
    const seen = numLooks;
    await until(() => numLooks >= seen + 10, "ten more looks at the load");
    expect(underWay.size).toBe(count);
  };
  const id = await start(Array.from({ length: 6 }, (_, i) => line(`${i}`)));
  await isUnderWayAndStaysSo(3);
  const [first] = underWay;
  first!();
  await isUnderWayAndStaysSo(3);
  load = { ...load, numInFlight: 1, numWaiting: 2 };
  await isUnderWayAndStaysSo(1);
  load = { ...load, numInFlight: 0, numWaiting: 0 };
  isEndless = false;
  for (const answer of underWay) answer();
  const { request_counts: counts } = await ended(id);
  expect(counts).toEqual({ total: 6, completed: 6, failed: 0 });
});
