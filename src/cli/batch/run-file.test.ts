import { execFileSync, spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as readText } from "node:stream/consumers";
import fc from "fast-check";
import { afterAll, beforeEach, expect, test } from "vitest";
import { assertRunFiles, type RunCounts, type RunFileOptions, runFile, type SendLine } from "./run-file.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-run-file-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const [input, output, errors] = ["in.jsonl", "out.jsonl", "errors.jsonl"].map((name) => join(folder, name)) as [
  string,
  string,
  string,
];
beforeEach(() => {
  for (const path of [input, output, errors]) rmSync(path, { force: true });
});

const line = (id: string, url = "/v1/chat/completions") =>
  JSON.stringify({ custom_id: id, method: "POST", url, body: { n: id } });
const answered: SendLine = async (path, body) => ({
  status: 200,
  body: Buffer.from(JSON.stringify({ path, sent: JSON.parse(body.toString()) })),
  retryAfterMs: undefined,
});

function run(lines: readonly string[], change: Partial<RunFileOptions> = {}): Promise<RunCounts> {
  writeFileSync(input, lines.join("\n"));
  const options = {
    input,
    output,
    errors: undefined,
    send: answered,
    numAtOnce: 3,
    onProgress: () => {},
    signal: new AbortController().signal,
  };
  return runFile({ ...options, ...change });
}

const read = (path: string) =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((text) => JSON.parse(text));
const idsOf = (path: string) =>
  read(path)
    .map(({ custom_id }) => custom_id)
    .sort();

test.each([
  [
    "an input that is not there",
    { input: join(folder, "none.jsonl") },
    "file_unreadable",
    /none\.jsonl, got no file of that name/,
  ],
  ["an output in no folder", { output: join(folder, "none", "out.jsonl") }, "invalid_option", /expected a folder for/],
  [
    "an output that is the input",
    { output: join(folder, ".", "in.jsonl") },
    "invalid_option",
    /another file than <input>/,
  ],
  ["errors in the input", { errors: input }, "invalid_option", /--errors to be another file than <input>/],
])("told before a model is loaded: %s", async (_, change, code, message) => {
  writeFileSync(input, line("a"));
  await assertRunFiles({ input, output, errors: undefined });
  await expect(assertRunFiles({ input, output, errors: undefined, ...change })).rejects.toMatchObject({
    code,
    message: expect.stringMatching(message),
  });
  expect(readFileSync(input, "utf8")).toBe(line("a"));
});

test("every line is answered where its url says", async () => {
  expect(await run([line("a"), line("b", "/v1/embeddings")])).toEqual({ succeeded: 2, failed: 0, skipped: 0 });
  const [a] = read(output).filter(({ custom_id }) => custom_id === "a");
  expect(a).toMatchObject({
    custom_id: "a",
    response: { status_code: 200, body: { path: "/v1/chat/completions", sent: { n: "a" } } },
    error: null,
  });
  expect(idsOf(output)).toEqual(["a", "b"]);
});

test("a run that was stopped anywhere goes on: each line is in the output once", async () => {
  const ids = Array.from({ length: 12 }, (_, i) => `id-${i}`);
  await fc.assert(
    fc.asyncProperty(fc.double({ min: 0, max: 1, noNaN: true }), async (share) => {
      rmSync(output, { force: true });
      await run(ids.map((id) => line(id)));
      truncateSync(output, Math.floor(readFileSync(output).length * share));
      const asked: string[] = [];
      const send: SendLine = (path, body) => {
        asked.push(JSON.parse(body.toString()).n);
        return answered(path, body);
      };
      const { succeeded, skipped } = await run(
        ids.map((id) => line(id)),
        { send },
      );
      expect(idsOf(output)).toEqual([...ids].sort());
      expect([succeeded + skipped, asked.length]).toEqual([12, succeeded]);
    }),
    { numRuns: 30 },
  );
});

test("refusals and faults are inline, or in a file of their own", async () => {
  const send: SendLine = async (path, body) =>
    body.toString().includes("bad")
      ? { status: 400, body: Buffer.from('{"error":{}}'), retryAfterMs: undefined }
      : answered(path, body);
  const lines = [line("a"), line("bad"), "no json", line("c", "/admin"), line("a")];
  expect(await run(lines, { send })).toEqual({ succeeded: 1, failed: 4, skipped: 0 });
  expect(read(output).length).toBe(5);
  rmSync(output);
  await run(lines, { send, errors });
  expect(idsOf(output)).toEqual(["a"]);
  expect(
    read(errors)
      .map(({ response, error }) => response?.status_code ?? error.code)
      .sort(),
  ).toEqual([400, "duplicate_custom_id", "invalid_json_line", "url_mismatch"]);
});

test("a busy server is asked again; one that stays away is an error of the line", async () => {
  let numAsked = 0;
  const send: SendLine = async (path, body) =>
    ++numAsked < 3 ? { status: 429, body: Buffer.from("{}"), retryAfterMs: 1 } : answered(path, body);
  expect(await run([line("a")], { send })).toEqual({ succeeded: 1, failed: 0, skipped: 0 });
});

test("a signal stops the run, and the next one goes on", async () => {
  const stop = new AbortController();
  let numAsked = 0;
  const send: SendLine = async (path, body) => {
    if (++numAsked === 4) stop.abort(new Error("stopped"));
    return answered(path, body);
  };
  const lines = Array.from({ length: 20 }, (_, i) => line(`${i}`));
  await expect(run(lines, { send, signal: stop.signal })).rejects.toThrow("stopped");
  appendFileSync(output, '{"custom_id":"half');
  expect((await run(lines)).skipped).toBeGreaterThanOrEqual(3);
  expect(idsOf(output).length).toBe(20);
});

test("there is no input", async () => {
  await expect(run([], { input: join(folder, "none") })).rejects.toMatchObject({ code: "file_unreadable" });
});

test("a pipe gets the answers, and has none of an earlier run", async () => {
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  const reader = spawn("cat", [pipe], { stdio: ["ignore", "pipe", "ignore"] });
  const text = readText(reader.stdout);
  writeFileSync(input, line("a"));
  await assertRunFiles({ input, output: pipe, errors: undefined });
  expect(await run([line("a"), line("b")], { output: pipe })).toEqual({ succeeded: 2, failed: 0, skipped: 0 });
  expect((await text).match(/"custom_id":"[ab]"/g)?.sort()).toEqual(['"custom_id":"a"', '"custom_id":"b"']);
});
