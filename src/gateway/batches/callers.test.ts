/** The caller of a batch's lines, and the caller's current rights. */
import { afterEach, describe, expect, test } from "vitest";
import {
  answerLine,
  type BatchServiceTest,
  batchClient,
  batchLine as line,
  startBatchService,
} from "../../../test/helpers/batch-service.js";
import { MillraceError } from "../../core/errors.js";
import type { CallerOf } from "../caller-identity.js";
import type { Caller } from "../request.js";
import { LINE_PRIORITY, type SubmitLine } from "./run-line.js";

let service: BatchServiceTest;
afterEach(() => service[Symbol.asyncDispose]());
const { call, ended, start } = batchClient(() => service);

describe("callers", () => {
  const budget = { unit: "money", window: "day", hard: 5_000_000_000n } as const;
  const scope = { kind: "key", id: "k1", limits: { budgets: [budget] } } as const;
  const limited: Caller = { tenant: "t", keyId: "k1", scopes: [scope], allowsModel: (model) => model === "m" };

  test("with budgets and allowed models make batches, and their lines run with the rights of now", async () => {
    const sent: Caller[] = [];
    const submit: SubmitLine = async ({ caller }, sink) => {
      sent.push(caller);
      return answerLine(sink, 200, {});
    };
    const asked: unknown[] = [];
    const callerOf: CallerOf = (identity) => {
      asked.push(identity);
      return limited;
    };
    service = await startBatchService({ submit, callerOf, authorize: () => limited });
    expect(await ended(await start([line("1")]))).toMatchObject({ status: "completed" });
    expect(asked[0]).toEqual({ tenant: "t", keyId: "k1", scopes: ["k1"] });
    expect(sent).toEqual([{ ...limited, priority: LINE_PRIORITY }]);
  });

  test("may not use other models in a batch either", async () => {
    service = await startBatchService({ callerOf: () => limited, authorize: () => limited });
    const other = line("1", { model: "m2" });
    const batch = await ended(await start([line("0"), other]));
    expect(batch).toMatchObject({ status: "failed", errors: { data: [{ code: "model_not_allowed", line: 2 }] } });
  });

  test("whose key is gone have no further lines answered", async () => {
    let isGone = false;
    const callerOf: CallerOf = () => {
      if (isGone)
        throw new MillraceError("invalid_api_key", "expected a key that is still valid, got one that is gone");
      return limited;
    };
    const submit: SubmitLine = async (_line, sink) => {
      isGone = true;
      return answerLine(sink, 200, {});
    };
    const settings = () => ({ maxInFlight: 1 });
    service = await startBatchService({ submit, callerOf, settings, authorize: () => limited });
    const batch = await ended(await start([line("1"), line("2")]));
    expect(batch).toMatchObject({ status: "completed", request_counts: { completed: 1, failed: 1 } });
    const { text } = await call("GET", `/v1/files/${batch.error_file_id}/content`);
    expect(text).toContain("invalid_api_key");
  });

  test("whose key is gone before the check have a batch that failed", async () => {
    const callerOf: CallerOf = () => {
      throw new MillraceError("invalid_api_key", "expected a key that is still valid, got one that is gone");
    };
    service = await startBatchService({ callerOf, authorize: () => limited });
    const batch = await ended(await start([line("1")]));
    expect(batch).toMatchObject({ status: "failed", errors: { data: [{ code: "invalid_api_key" }] } });
  });
});
