/** Files and batches of a real gateway with the bundled model, through the vendors' own clients. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { getPriority, tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI, { toFile } from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FleetProcess } from "../helpers/fleet-process.js";
import { runCli } from "../helpers/run-cli.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-batches-"));
let fleet: FleetProcess;
let openai: OpenAI;
let anthropic: Anthropic;
beforeAll(async () => {
  fleet = await FleetProcess.start({
    "data-folder": folder,
    models: [{ name: "mill-base", model: "models/mill-base.gguf", instances: 1 }],
  });
  openai = new OpenAI({ baseURL: `${fleet.url}/v1`, apiKey: "none", maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: fleet.url, apiKey: "none", maxRetries: 0 });
});
afterAll(async () => {
  await fleet[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const chat = (id: string, fields: object = {}) => ({
  custom_id: id,
  method: "POST",
  url: "/v1/chat/completions",
  body: {
    model: "mill-base",
    messages: [{ role: "user", content: `What is ${id.length} + 2?` }],
    max_tokens: 8,
    temperature: 0,
    ...fields,
  },
});

const jsonl = (lines: readonly object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
const upload = async (lines: readonly object[]) =>
  openai.files.create({ file: await toFile(Buffer.from(jsonl(lines)), "in.jsonl"), purpose: "batch" });

async function batchOf(
  lines: readonly object[],
  endpoint: "/v1/chat/completions" | "/v1/embeddings" = "/v1/chat/completions",
) {
  const { id } = await upload(lines);
  return openai.batches.create({ input_file_id: id, endpoint, completion_window: "24h", metadata: { of: "test" } });
}

async function ended(id: string): Promise<OpenAI.Batch> {
  for (;;) {
    const batch = await openai.batches.retrieve(id);
    if (!["validating", "in_progress", "finalizing", "cancelling"].includes(batch.status)) return batch;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const linesOf = async (id: string) =>
  (await (await openai.files.content(id)).text())
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe("OpenAI's client", () => {
  test("a batch answers each line once, and its errors are in the error file", async () => {
    const lines = Array.from({ length: 20 }, (_, i) => chat(`line-${i}`, i === 7 ? { max_tokens: -2 } : {}));
    const created = await batchOf(lines);
    expect(created).toMatchObject({ object: "batch", status: "validating", metadata: { of: "test" }, errors: null });
    expect(created.expires_at).toBe(created.created_at + 86_400);
    const batch = await ended(created.id);
    expect(batch).toMatchObject({
      status: "completed",
      model: "mill-base",
      request_counts: { total: 20, completed: 19, failed: 1 },
    });
    expect(batch.usage!.total_tokens).toBeGreaterThan(19 * 8);
    const output = await linesOf(batch.output_file_id!);
    expect(new Set(output.map((line) => line.custom_id)).size).toBe(19);
    expect(output[0]).toMatchObject({
      id: expect.stringMatching(/^batch_req_/),
      response: { status_code: 200, request_id: expect.any(String), body: { object: "chat.completion" } },
      error: null,
    });
    const [error, ...none] = await linesOf(batch.error_file_id!);
    expect(none).toEqual([]);
    expect(error).toMatchObject({
      custom_id: "line-7",
      response: { status_code: 400, body: { error: { code: "invalid_parameter" } } },
    });
  });

  test("a faulty file fails its batch, with the line of each fault", async () => {
    const { status, errors, failed_at, output_file_id } = await ended(
      (await batchOf([chat("a"), chat("a"), { ...chat("b"), url: "/v1/embeddings" }, chat("c", { stream: true })])).id,
    );
    expect({ status, output_file_id }).toEqual({ status: "failed", output_file_id: null });
    expect(failed_at).toBeGreaterThan(0);
    expect(errors!.data!.map(({ code, line }) => [code, line])).toEqual([
      ["duplicate_custom_id", 2],
      ["url_mismatch", 3],
      ["stream_unsupported", 4],
    ]);
  });

  test("the input may be deleted while the batch runs", async () => {
    const { id } = await upload([chat("only")]);
    const batch = await openai.batches.create({
      input_file_id: id,
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
    });
    expect(await openai.files.delete(id)).toEqual({ id, object: "file", deleted: true });
    await expect(openai.files.retrieve(id)).rejects.toMatchObject({ status: 404, code: "not_found" });
    expect((await ended(batch.id)).status).toBe("completed");
  });

  test("a cancelled batch keeps what is answered; every line is in one of the files", async () => {
    const lines = Array.from({ length: 400 }, (_, i) => chat(`line-${i}`, { min_tokens: 60, max_tokens: 60 }));
    const { id } = await batchOf(lines);
    while (((await openai.batches.retrieve(id)).request_counts?.completed ?? 0) < 3) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect((await openai.batches.cancel(id)).status).toBe("cancelling");
    const batch = await ended(id);
    expect(batch.status).toBe("cancelled");
    const [output, errors] = [await linesOf(batch.output_file_id!), await linesOf(batch.error_file_id!)];
    expect(output.length).toBeGreaterThanOrEqual(3);
    expect(errors[0]).toMatchObject({ response: null, error: { code: "batch_cancelled" } });
    const ids = [...output, ...errors].map((line) => line.custom_id);
    expect(new Set(ids).size).toBe(400);
    expect(ids.length).toBe(400);
    await expect(openai.batches.cancel(id)).rejects.toMatchObject({ status: 400 });
  });

  test("files and batches are listed in pages, the newest first", async () => {
    const all = [];
    for await (const batch of openai.batches.list({ limit: 2 })) all.push(batch.id);
    expect(all.length).toBeGreaterThanOrEqual(4);
    expect(new Set(all).size).toBe(all.length);
    const files = [];
    for await (const file of openai.files.list({ purpose: "batch", limit: 1, order: "asc" })) files.push(file);
    expect(files.map(({ created_at }) => created_at)).toEqual(
      files.map(({ created_at }) => created_at).sort((a, b) => a - b),
    );
    expect(
      files.every(
        ({ purpose, expires_at, created_at }) => purpose === "batch" && expires_at === created_at + 2_592_000,
      ),
    ).toBe(true);
  });

  test("an Idempotency-Key makes one file and one batch, and refuses to stand for another", async () => {
    const keyed = (key: string) => ({ headers: { "Idempotency-Key": key } });
    const file = (text: string) => toFile(Buffer.from(text), "in.jsonl");
    const text = jsonl([chat("once")]);
    const make = async (content: string, key: string) =>
      openai.files.create({ file: await file(content), purpose: "batch" }, keyed(key));
    const first = await make(text, "f");
    expect((await make(text, "f")).id).toBe(first.id);
    await expect(make(jsonl([chat("twice")]), "f")).rejects.toMatchObject({
      status: 409,
      code: "idempotency_conflict",
    });
    const create = (metadata: Record<string, string>) =>
      openai.batches.create(
        { input_file_id: first.id, endpoint: "/v1/chat/completions", completion_window: "24h", metadata },
        keyed("b"),
      );
    const batch = await create({ a: "1" });
    expect((await create({ a: "1" })).id).toBe(batch.id);
    await expect(create({ a: "2" })).rejects.toMatchObject({ status: 409 });
    await ended(batch.id);
  });

  test("vectors: each line has its own", async () => {
    const lines = ["one", "two"].map((input) => ({
      custom_id: input,
      method: "POST",
      url: "/v1/embeddings",
      body: { model: "mill-base", input },
    }));
    const batch = await ended((await batchOf(lines, "/v1/embeddings")).id);
    expect(batch).toMatchObject({ status: "completed", request_counts: { total: 2, completed: 2, failed: 0 } });
  });

  test.each([
    [{ endpoint: "/v1/moderations" }, "endpoint"],
    [{ completion_window: "1h" }, "completion_window"],
    [{ input_file_id: "file-none" }, undefined],
    [{ metadata: { key: "x".repeat(513) } }, "metadata"],
    [{ output_expires_after: { anchor: "created_at", seconds: 60 } }, "output_expires_after"],
    [{ window: 1 }, "window"],
  ])("a batch with %j is refused", async (fields, param) => {
    const { id } = await upload([chat("a")]);
    const body = { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h", ...fields };
    const refusal = await openai.batches.create(body as never).catch((thrown) => thrown);
    expect(refusal).toBeInstanceOf(OpenAI.APIError);
    expect(refusal.status).toBe(param === undefined ? 404 : 400);
    if (param !== undefined) expect(refusal.param).toBe(param);
  });
});

describe("Anthropic's client", () => {
  const request = (id: string, params: object = {}) => ({
    custom_id: id,
    params: {
      model: "mill-base",
      max_tokens: 8,
      messages: [{ role: "user" as const, content: "Hello" }],
      ...params,
    },
  });

  async function batchEnded(id: string): Promise<Anthropic.Messages.MessageBatch> {
    for (;;) {
      const batch = await anthropic.messages.batches.retrieve(id);
      if (batch.processing_status === "ended") return batch;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  test("a batch gives each request a result, then can be deleted", async () => {
    const requests = [request("a"), request("b", { temperature: 7 }), request("c")];
    const created = await anthropic.messages.batches.create({ requests });
    expect(created).toMatchObject({
      type: "message_batch",
      processing_status: "in_progress",
      results_url: null,
      request_counts: { processing: 3 },
    });
    const batch = await batchEnded(created.id);
    expect(batch.request_counts).toEqual({ processing: 0, succeeded: 2, errored: 1, canceled: 0, expired: 0 });
    const results = new Map<string, Anthropic.Messages.MessageBatchResult>();
    for await (const { custom_id, result } of await anthropic.messages.batches.results(created.id)) {
      results.set(custom_id, result);
    }
    expect([...results.keys()].sort()).toEqual(["a", "b", "c"]);
    expect(results.get("a")).toMatchObject({ type: "succeeded", message: { type: "message", role: "assistant" } });
    expect(results.get("b")).toMatchObject({
      type: "errored",
      error: { type: "error", error: { type: "invalid_request_error" } },
    });
    expect(await anthropic.messages.batches.delete(created.id)).toEqual({
      id: created.id,
      type: "message_batch_deleted",
    });
    await expect(anthropic.messages.batches.retrieve(created.id)).rejects.toMatchObject({ status: 404 });
  });

  test("a cancelled batch has canceled results, and both are listed", async () => {
    const requests = Array.from({ length: 300 }, (_, i) => request(`r${i}`, { max_tokens: 100 }));
    const { id } = await anthropic.messages.batches.create({ requests });
    expect(await anthropic.messages.batches.delete(id).catch(({ status }) => status)).toBe(400);
    expect((await anthropic.messages.batches.cancel(id)).processing_status).toBe("canceling");
    const { request_counts: counts } = await batchEnded(id);
    expect(counts.canceled + counts.succeeded).toBe(300);
    expect(counts.canceled).toBeGreaterThan(0);
    const ids = [];
    for await (const batch of anthropic.messages.batches.list({ limit: 1 })) ids.push(batch.id);
    expect(ids).toContain(id);
    // Results of Anthropic's batches are no files of OpenAI's API.
    expect((await openai.files.list()).data.filter(({ filename }) => filename.startsWith("msgbatch"))).toEqual([]);
  });

  test.each([
    ["a twice", [request("a"), request("a")]],
    ["a custom_id with a space", [request("a b")]],
    ["a stream", [request("a", { stream: true })]],
    ["an unknown model", [request("a", { model: "other" })]],
    ["no tokens", [request("a", { max_tokens: 0 })]],
    ["nothing", []],
  ])("a batch with %s is refused as a whole", async (_, requests) => {
    const refusal = await anthropic.messages.batches.create({ requests }).catch((thrown) => thrown);
    expect(refusal).toMatchObject({ status: 400, error: { error: { type: "invalid_request_error" } } });
  });
});

describe("the command line", () => {
  const path = (name: string) => join(folder, name);
  const idsIn = (name: string) =>
    readFileSync(path(name), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id)
      .sort();

  test("answers a file with a model of its own, and only what is missing", async () => {
    writeFileSync(path("in.jsonl"), jsonl([chat("a"), chat("b"), chat("c", { max_tokens: -2 })]));
    const run = () =>
      runCli("batch", "run", path("in.jsonl"), path("out.jsonl"), "--errors", path("bad.jsonl"), "--json");
    const first = await run();
    expect(first.exitCode).toBe(1);
    expect(JSON.parse(first.stdout)).toEqual({ succeeded: 2, failed: 1, skipped: 0 });
    expect([idsIn("out.jsonl"), idsIn("bad.jsonl")]).toEqual([["a", "b"], ["c"]]);
    writeFileSync(path("in.jsonl"), jsonl([chat("a"), chat("d")]));
    const second = await run();
    expect(second.exitCode).toBe(0);
    expect(JSON.parse(second.stdout)).toEqual({ succeeded: 1, failed: 0, skipped: 1 });
    expect(idsIn("out.jsonl")).toEqual(["a", "b", "d"]);
  });

  test("samples as the model's files say, as a server does, unless a flag says otherwise", async () => {
    const story = { custom_id: "s", method: "POST", url: "/v1/completions", body: { prompt: "Once", max_tokens: 12 } };
    writeFileSync(path("story.jsonl"), jsonl([story]));
    const textWith = async (output: string, ...flags: string[]) => {
      await runCli("batch", "run", path("story.jsonl"), path(output), ...flags);
      const [line] = readFileSync(path(output), "utf8").split("\n");
      return (JSON.parse(line!) as { response: { body: OpenAI.Completion } }).response.body.choices[0]!.text;
    };
    const served = await openai.completions.create({ model: "mill-base", prompt: "Once", max_tokens: 12 });
    expect(await textWith("own.jsonl")).toBe(served.choices[0]!.text);
    const hot = '{"temperature":2}';
    const texts = [
      await textWith("hot-1.jsonl", "--override-generation-config", hot),
      await textWith("hot-2.jsonl", "--override-generation-config", hot),
    ];
    expect(texts[0]).not.toBe(texts[1]);
  });

  test("makes a batch for the url of the first line", async () => {
    writeFileSync(path("texts.jsonl"), jsonl([{ ...chat("a"), url: "/v1/completions", body: { prompt: "Once" } }]));
    const { stdout } = await runCli("batch", "create", path("texts.jsonl"), "--json", "--url", fleet.url);
    expect(JSON.parse(stdout)).toMatchObject({ endpoint: "/v1/completions" });
  });

  test("makes, lists, shows and cancels batches of a gateway", async () => {
    writeFileSync(path("in.jsonl"), jsonl([chat("a"), chat("b", { max_tokens: -2 })]));
    const at = ["--url", fleet.url];
    const created = JSON.parse(
      (await runCli("batch", "create", path("in.jsonl"), "--metadata", "k=v", "--json", ...at)).stdout,
    );
    expect(created).toMatchObject({ object: "batch", metadata: { k: "v" } });
    await ended(created.id);
    expect((await runCli("batch", "list", ...at)).stdout).toContain(created.id);
    const files = ["--output", path("o.jsonl"), "--errors", path("e.jsonl")];
    const { stdout } = await runCli("batch", "show", created.id, ...files, ...at);
    expect(stdout).toContain("completed  2 of 2, 1 failed");
    expect([idsIn("o.jsonl"), idsIn("e.jsonl")]).toEqual([["a"], ["b"]]);
    const refused = await runCli("batch", "cancel", created.id, ...at);
    expect([refused.exitCode, refused.stderr]).toEqual([1, expect.stringContaining("is completed")]);
  });
});

test("an engine's threads leave the processors to the gateway where these are short", async () => {
  const [{ pid } = { pid: 0 }] = await fleet.instances();
  // A thread that just begins or ends is looked at again.
  await expect
    .poll(() => {
      const threads = readdirSync(`/proc/${pid}/task`).map((thread) => Number(thread));
      expect(threads.length).toBeGreaterThan(2);
      return [...new Set(threads.map((thread) => getPriority(thread)))];
    })
    .toEqual([Math.min(19, getPriority() + 5)]);
});
