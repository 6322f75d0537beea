/**
 * Files and batches over HTTP with lines that the test answers: uploads of every kind, tenants, quotas, limits, and how
 * lines are sent.
 */
import { request } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import {
  answerLine,
  type BatchServiceTest,
  batchClient,
  errorOf,
  batchLine as line,
  startBatchService,
  userOf,
} from "../../../test/helpers/batch-service.js";
import { until } from "../../../test/helpers/fake-server.js";
import { MillraceError } from "../../core/errors.js";
import { LINE_PRIORITY, type LineSubmission, type SubmitLine } from "./run-line.js";
import type { BatchSettings } from "./service.js";

let service: BatchServiceTest;
afterEach(() => service[Symbol.asyncDispose]());

const { call, ended, form, start } = batchClient(() => service);

describe("uploads", () => {
  test("a file is stored, shown, read and deleted; its name is no path", async () => {
    service = await startBatchService();
    const { json: file } = await call("POST", "/v1/files", form("abc", { purpose: "user_data" }));
    expect(file).toMatchObject({
      object: "file",
      bytes: 3,
      purpose: "user_data",
      filename: "b.jsonl",
      status: "processed",
      expires_at: null,
    });
    expect((await call("GET", `/v1/files/${file.id}`)).json).toEqual(file);
    const content = await call("GET", `/v1/files/${file.id}/content`);
    expect([content.text, content.headers.get("content-length")]).toEqual(["abc", "3"]);
    expect((await call("DELETE", `/v1/files/${file.id}`)).json).toEqual({ id: file.id, object: "file", deleted: true });
    expect(errorOf(await call("GET", `/v1/files/${file.id}/content`))).toBe("not_found");
  });

  test("an empty file", async () => {
    service = await startBatchService();
    const { json: file } = await call("POST", "/v1/files", form("", { purpose: "evals" }));
    expect((await call("GET", `/v1/files/${file.id}/content`)).text).toBe("");
  });

  test.each([
    ["no purpose", form("a", {}), "invalid_parameter"],
    ["another purpose", form("a", { purpose: "batch_output" }), "invalid_parameter"],
    [
      "an expiry that is too short",
      form("a", { purpose: "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "60" }),
      "invalid_parameter",
    ],
    [
      "an expiry without an anchor",
      form("a", { purpose: "batch", "expires_after[seconds]": "3600" }),
      "invalid_parameter",
    ],
    [
      "no file",
      (() => {
        const data = new FormData();
        data.set("purpose", "batch");
        return data;
      })(),
      "invalid_request",
    ],
    [
      "two files",
      (() => {
        const data = form("a");
        data.append("file", new Blob(["b"]), "b");
        return data;
      })(),
      "invalid_request",
    ],
    [
      "a field that comes twice",
      (() => {
        const data = form("a", { purpose: "batch" });
        data.append("purpose", "user_data");
        return data;
      })(),
      "invalid_request",
    ],
    [
      "the file under another name",
      (() => {
        const data = new FormData();
        data.set("data", new Blob(["b"]), "b");
        return data;
      })(),
      "invalid_request",
    ],
    ["a field of 100 KB", form("a", { purpose: "x".repeat(100_000) }), "invalid_request"],
    ["JSON", { purpose: "batch" }, "invalid_request"],
  ])("%s is refused", async (_, body, code) => {
    service = await startBatchService();
    expect(errorOf(await call("POST", "/v1/files", body))).toBe(code);
    expect((await call("GET", "/v1/files")).json.data).toEqual([]);
  });

  test.each([
    ["a body that is cut", '--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc'],
    ["a body that is no multipart", "hello"],
    ["an empty body", ""],
  ])("%s is refused", async (_, text) => {
    service = await startBatchService();
    const answer = await fetch(`${service.url}/v1/files`, {
      method: "POST",
      body: text,
      headers: { "content-type": "multipart/form-data; boundary=x" },
    });
    expect(answer.status).toBe(400);
    expect((await call("GET", "/v1/files")).json.data).toEqual([]);
  });

  test("a client that leaves in the middle leaves nothing behind; one that stalls is told", async () => {
    service = await startBatchService({ settings: () => ({ bodyTimeoutMs: 200 }) });
    const begin = () => {
      const upload = request(`${service.url}/v1/files`, {
        method: "POST",
        headers: { "content-type": "multipart/form-data; boundary=x" },
      });
      upload.write('--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc');
      return upload;
    };
    const leaving = begin().on("error", () => {});
    await wait(50);
    leaving.destroy();
    const stalled = begin();
    const status = await new Promise((resolve) =>
      stalled.on("response", (answer) => resolve(answer.statusCode)).on("error", resolve),
    );
    expect(status).toBe(408);
    expect((await call("GET", "/v1/files")).json.data).toEqual([]);
  });

  test("a tenant's files are bounded in bytes and in number", async () => {
    let settings: Partial<BatchSettings> = { maxTenantBytes: 10 };
    service = await startBatchService({ settings: () => settings });
    expect(errorOf(await call("POST", "/v1/files", form("12345678901")))).toBe("storage_quota");
    expect((await call("POST", "/v1/files", form("1234567890"))).status).toBe(200);
    expect(errorOf(await call("POST", "/v1/files", form("1")))).toBe("storage_quota");
    settings = { maxTenantFiles: 1 };
    expect(errorOf(await call("POST", "/v1/files", form("1")))).toBe("storage_quota");
  });

  test("files are gone when they expire", async () => {
    let nowMs = Date.now();
    service = await startBatchService({ nowMs: () => nowMs });
    const fields = { purpose: "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600" };
    const { json: file } = await call("POST", "/v1/files", form("a", fields));
    expect(file.expires_at).toBe(Number(file.created_at) + 3600);
    nowMs += 3_600_000;
    expect(errorOf(await call("GET", `/v1/files/${file.id}`))).toBe("not_found");
  });
});

describe("tenants", () => {
  test("see their own files and batches only, and their lines are theirs", async () => {
    const callers: string[] = [];
    const submit: SubmitLine = async ({ caller }, sink) => {
      callers.push(caller.tenant);
      return answerLine(sink, 200, {});
    };
    const authorize = (headers: Record<string, unknown>) => {
      if (typeof headers["x-api-key"] !== "string")
        throw new MillraceError("invalid_api_key", "expected a key, got none");
      return { tenant: headers["x-api-key"] };
    };
    service = await startBatchService({ submit, authorize });
    const [a, b] = [{ "x-api-key": "a" }, { "x-api-key": "b" }];
    const id = await start([line("1")], a);
    const batch = await ended(id, a);
    expect(callers).toEqual(["a"]);
    for (const path of [
      `/v1/batches/${id}`,
      `/v1/files/${batch.input_file_id}`,
      `/v1/files/${batch.output_file_id}/content`,
    ]) {
      expect((await call("GET", path, undefined, a)).status).toBe(200);
      expect((await call("GET", path, undefined, b)).status).toBe(404);
      expect((await call("GET", path)).status).toBe(401);
    }
    expect((await call("POST", `/v1/batches/${id}/cancel`, undefined, b)).status).toBe(404);
    expect((await call("GET", "/v1/batches", undefined, b)).json.data).toEqual([]);
    const body = { input_file_id: batch.input_file_id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    expect((await call("POST", "/v1/batches", body, b)).status).toBe(404);
  });

  test("take turns at a model", async () => {
    const order: string[] = [];
    let answer = () => {};
    const submit: SubmitLine = (sent, sink) =>
      new Promise((resolve) => {
        order.push(sent.caller.tenant);
        answer = () => resolve(answerLine(sink, 200, {}));
        sent.cancellation.onCancel(() => resolve({ kind: "cancelled" }));
      });
    const authorize = (headers: Record<string, unknown>) => ({ tenant: String(headers["x-api-key"]) });
    service = await startBatchService({ submit, authorize, settings: () => ({ maxInFlight: 1 }) });
    const nextAfter = async (count: number) => {
      answer();
      await until(() => order.length > count, "the next line");
    };
    await start(
      Array.from({ length: 500 }, (_, i) => line(`${i}`)),
      { "x-api-key": "a" },
    );
    await until(() => order.length === 1, "the first line");
    await start([line("x"), line("y")], { "x-api-key": "b" });
    // The second batch is checked first, while lines of the first one go on.
    while (!order.includes("b")) await nextAfter(order.length);
    for (let i = 0; i < 2; i++) await nextAfter(order.length);
    expect(order.slice(order.indexOf("b"))).toEqual(["b", "a", "b"]);
  });
});

describe("lines", () => {
  test("go last, say which batch they are of, and carry no priority of their own", async () => {
    const sent: LineSubmission[] = [];
    service = await startBatchService({
      submit: async (submission, sink) => {
        sent.push(submission);
        return answerLine(sink, 200, {});
      },
    });
    const id = await start([line("a", { priority: -5 })]);
    await ended(id);
    expect(sent[0]!.caller.priority).toBe(LINE_PRIORITY);
    expect(sent[0]!.record.notes.get("batch")).toBe(id);
    expect(sent[0]!.body).toEqual({ model: "m", user: "a" });
    expect(sent[0]!.bytes).toBeUndefined();
  });

  test("an answer may be pretty, or no JSON at all", async () => {
    const bodies = new Map([
      ["pretty", '{\n "a": [1,\n 2]\n}'],
      ["text", "oh\nno"],
    ]);
    const submit: SubmitLine = async (sent, sink) => {
      sink.begin({ status: 200, headers: {}, isEventStream: false });
      sink.end(Buffer.from(bodies.get(userOf(sent))!));
      return { kind: "answered", status: 200 };
    };
    service = await startBatchService({ submit });
    const batch = await ended(await start([line("pretty"), line("text")]));
    const { text } = await call("GET", `/v1/files/${batch.output_file_id}/content`);
    const results = text
      .trimEnd()
      .split("\n")
      .map((each) => JSON.parse(each));
    const bodyOf = (id: string) => results.find(({ custom_id }) => custom_id === id).response.body;
    expect([bodyOf("pretty"), bodyOf("text")]).toEqual([{ a: [1, 2] }, "oh\nno"]);
  });
});

describe("batches", () => {
  test("a tenant has a bounded number of them at once", async () => {
    const submit: SubmitLine = ({ cancellation }) =>
      new Promise((resolve) => cancellation.onCancel(() => resolve({ kind: "cancelled" })));
    service = await startBatchService({ submit, settings: () => ({ maxOpenBatches: 1 }) });
    await start([line("a")]);
    const file = await call("POST", "/v1/files", form(line("a")));
    const body = { input_file_id: file.json.id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    expect(errorOf(await call("POST", "/v1/batches", body))).toBe("storage_quota");
  });

  test.each([
    ["an empty file", "\n\n", [["empty_file", null]]],
    ["blank lines alone", "\n".repeat(4_000_000), [["too_many_tasks", null]]],
    ["blank lines behind others", `${line("a")}\n`.concat("\n".repeat(100_000)), [["too_many_tasks", null]]],
    ["no UTF-8", Buffer.from([0xff, 0xfe, 0x0a]), [["invalid_json_line", 1]]],
    ["a line beyond the limit", `${line("a")}\n${line("b", { x: "y".repeat(1 << 20) })}`, [["line_too_long", 2]]],
    ["300 faults", "x\n".repeat(300), Array.from({ length: 100 }, (_, i) => ["invalid_json_line", i + 1])],
  ])("of %s fail", async (_, content, faults) => {
    service = await startBatchService();
    const file = await call("POST", "/v1/files", form(content));
    const body = { input_file_id: file.json.id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    const batch = await ended(String((await call("POST", "/v1/batches", body)).json.id));
    expect(batch.status).toBe("failed");
    const { data } = batch.errors as { data: { code: string; line: number }[] };
    expect(data.map(({ code, line: at }) => [code, at])).toEqual(faults);
  });

  test("of 50,001 lines fail, and the gateway answers others meanwhile", async () => {
    service = await startBatchService();
    const content = Array.from({ length: 50_001 }, (_, i) => line(`${i}`)).join("\n");
    const file = await call("POST", "/v1/files", form(content));
    const body = { input_file_id: file.json.id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    const { json } = await call("POST", "/v1/batches", body);
    // Processor time: other programs may run meanwhile.
    let worstMs = 0;
    let last = process.cpuUsage();
    const timer = setInterval(() => {
      const { user, system } = process.cpuUsage(last);
      worstMs = Math.max(worstMs, (user + system) / 1000);
      last = process.cpuUsage();
    }, 1);
    const batch = await ended(String(json.id));
    clearInterval(timer);
    expect((batch.errors as { data: unknown[] }).data).toMatchObject([{ code: "too_many_tasks", line: 50_001 }]);
    // Without slices it takes seconds.
    expect(worstMs).toBeLessThan(600);
  });

  test("a gateway that is off says nothing of them; another process with the same folder waits", async () => {
    service = await startBatchService();
    await call("GET", "/v1/files");
    const second = await startBatchService({ folder: service.folder });
    const answer = await fetch(`${second.url}/v1/files`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({ error: { code: "storage_locked" } });
    await second.service.close();
  }, 20_000);

  test("unknown paths and methods are refused in the API's own form", async () => {
    service = await startBatchService();
    expect((await call("PUT", "/v1/files")).status).toBe(405);
    expect((await call("GET", "/v1/batches/a/b")).status).toBe(404);
    expect((await call("GET", "/v1/messages/batches/none")).json).toMatchObject({
      type: "error",
      error: { type: "not_found_error" },
    });
    expect((await call("GET", "/v1/batches/nope")).json).toMatchObject({
      error: { message: expect.stringMatching(/^expected the id of a batch, got "nope".*millrace batch list/) },
    });
    expect(errorOf(await call("GET", "/v1/batches?limit=0"))).toBe("invalid_parameter");
    expect(errorOf(await call("POST", "/v1/batches", { a: "x".repeat(70_000) }))).toBe("body_too_large");
  });
});
