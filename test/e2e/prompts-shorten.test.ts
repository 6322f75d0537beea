/**
 * `millrace prompts shorten`, as a process on the bundled model: chats with planted redundancy, in this process and
 * behind a server.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { redundantChats } from "../../models/corpus/redundant.js";
import { parseChats } from "../../src/quality/check.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { cases } from "../helpers/long.js";
import { runCli } from "../helpers/run-cli.js";
import { runMain } from "../helpers/run-main.js";
import { startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

const lines = (values: readonly object[]): string => values.map((value) => JSON.stringify(value)).join("\n");
/** Of which half confirm: without a loss, 20 answers exclude a drop of 20 points, and 12 one of 40. */
const [NUM_CHATS, MAX_DROP] = [cases(24, 60), cases(40, 20)];
const chats = redundantChats(1_000_001, NUM_CHATS, "extract");
/** Of the first test: the model is asked once, whatever is done with its answers then. */
const answered = mkdtempSync(join(tmpdir(), "millrace-answers-"));
const journal = join(answered, "journal.jsonl");
afterAll(() => rmSync(answered, { recursive: true, force: true }));

function folder() {
  const root = tempTree({ "chats.jsonl": lines(chats) });
  const command = ["prompts", "shorten", join(root, "chats.jsonl"), "--max-drop", `${MAX_DROP}`];
  const shorten = (...args: readonly string[]) => runCli(...command, ...args);
  /** In this process, for refusals before any work. */
  const refusal = (...args: readonly string[]) => runMain(...command, ...args);
  return { root, shorten, refusal };
}

/**
 * @param answer to a message that came with a key
 * @param onOpen called as the command opens the model
 * @returns the URL
 */
async function startWriter(
  answer: (key: string | undefined, message: string) => string,
  onOpen: () => void = () => {},
): Promise<string> {
  const writer = createServer(async (incoming, outgoing) => {
    const body = JSON.parse((await text(incoming)) || "{}");
    if (incoming.url === "/v1/models") {
      onOpen();
      return outgoing.end(JSON.stringify({ data: [{ id: "writer" }] }));
    }
    const content = answer(incoming.headers.authorization, body.messages[0].content);
    const message = { role: "assistant", content };
    outgoing.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }] }));
  });
  await new Promise<void>((resolve) => writer.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void writer.close());
  return `http://127.0.0.1:${(writer.address() as AddressInfo).port}`;
}

test("saves more than a fifth of the tokens at no more than the drop, and goes on from its journal", async () => {
  const { root, shorten } = folder();
  const out = join(root, "short.jsonl");
  const args = ["--methods", "rules", "--journal", journal, "--json", "--out", out];
  const { stdout, stderr, exitCode } = await shorten(...args);
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
  const report = JSON.parse(stdout);
  const { comparison, saved } = report.confirmation;
  expect(saved).toBeGreaterThan(0.2);
  expect(comparison).toMatchObject({ verdict: "passes", overall: { numItems: NUM_CHATS / 2 } });
  expect(comparison.overall.interval[1]).toBeLessThan(MAX_DROP / 100);
  expect(report.prompts).toMatchObject([{ role: "system", numChats: NUM_CHATS }]);
  expect(report.prompts[0].after.length).toBeLessThan(report.prompts[0].before.length);
  const short = parseChats(readFileSync(out, "utf8"), out);
  expect(short.map(({ check }) => check)).toEqual(chats.map(({ check }) => check));
  expect(short.map(({ messages }) => messages.at(-1))).toEqual(chats.map(({ messages }) => messages.at(-1)));
  // What stands there is not overwritten unasked, and the same answers give the same report.
  const again = await shorten(...args);
  expect(again).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("expected nothing at") });
  const forced = await shorten(...args, "--force");
  expect(forced.stdout).toBe(stdout);
}, 240_000);

test("shortens recorded requests by what a server's answers allow", async () => {
  const { root, shorten } = folder();
  const server = await startTestServer(["--model", join(repositoryRoot(), "models/mill-base.gguf")]);
  try {
    const requests = chats
      .slice(0, 4)
      .map(({ messages }) => ({ body: { model: "m", messages: messages.slice(0, -1), seed: 1 } }));
    const [from, out] = [join(root, "requests.jsonl"), join(root, "short-requests.jsonl")];
    writeFileSync(from, lines(requests));
    const target = ["--url", server.url, "--methods", "rules", "--count", `${NUM_CHATS}`];
    const { stdout, stderr, exitCode } = await shorten(...target, "--requests", from, "--out", out);
    expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
    expect(stdout).toContain(`passes: the drop is below ${MAX_DROP} points`);
    // Counting tokens takes no engine.
    expect(stderr).not.toMatch(/parameters/);
    const written = readFileSync(out, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(written).toHaveLength(4);
    for (const [at, { body }] of written.entries()) {
      expect(body.seed).toBe(1);
      expect(JSON.stringify(body).length).toBeLessThan(0.8 * JSON.stringify(requests[at]!.body).length);
    }
  } finally {
    await server.stop();
  }
}, 240_000);

test("a server rewrites the shared prompt, and gets its own key alone", async () => {
  const { root, shorten } = folder();
  const seen: { readonly key: string | undefined; readonly message: string }[] = [];
  const answers = ['You are {never} a helper. Settings: "office" "calm".', "x".repeat(100_000)];
  const url = await startWriter((key, message) => {
    seen.push({ key, message });
    return answers[seen.length - 1]!;
  });
  const rewriting = ["--rewrite-url", url, "--rewrite-api-key", "sk-writer"];
  const other = ["--methods", "rewriting", "--count", "4", "--api-key", "sk-target", "--json"];
  const { stdout, exitCode } = await shorten(...rewriting, ...other, "--out", join(root, "rewritten.jsonl"));
  // Neither is faithful: one lost most of the settings, the other is longer.
  expect(JSON.parse(stdout)).toMatchObject({ decisions: [], confirmation: null, written: null });
  expect(exitCode).toBe(1);
  expect(new Set(seen.map(({ key }) => key))).toEqual(new Set(["Bearer sk-writer"]));
  expect(seen[0]!.message).toContain("founded by two sisters");
}, 120_000);

test("the report is there, too, where the file can no longer be written", async () => {
  const { root, shorten } = folder();
  const place = join(root, "results");
  mkdirSync(place);
  const url = await startWriter(
    () => "no",
    () => rmSync(place, { recursive: true }),
  );
  const args = ["--methods", "rules,rewriting", "--rewrite-url", url, "--journal", journal, "--json", "--force"];
  const { stdout, stderr, exitCode } = await shorten(...args, "--out", join(place, "short.jsonl"));
  expect(JSON.parse(stdout)).toMatchObject({ confirmation: { comparison: { verdict: "passes" } }, written: null });
  expect(stderr).toMatch(/expected to write .*short\.jsonl/);
  expect(exitCode).toBe(2);
}, 240_000);

test("few items confirm nothing: no file is written, and the exit code is 1", async () => {
  const { root, shorten } = folder();
  const out = join(root, "none.jsonl");
  const few = ["--methods", "rules", "--count", "4", "--journal", journal];
  const { stdout, exitCode } = await shorten(...few, "--max-drop", "2", "--out", out);
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(/refused: (open|needs \d+ more items)/);
  expect(existsSync(out)).toBe(false);
}, 120_000);

test.each([
  [["--methods", "magic"], /--methods/],
  [["--methods", "rewriting"], /--rewrite-url/],
  [["--max-drop", "0"], /--max-drop/],
  [["--tasks", "nothing"], /--tasks/],
])("refuses %j", async (args, message) => {
  const { stderr, exitCode } = await folder().refusal(...args);
  expect(stderr).toMatch(message);
  expect(exitCode).toBe(2);
});

test("items with one prompt are refused", async () => {
  const { stderr, exitCode } = await folder().shorten("--count", "1", "--methods", "rules");
  expect({ stderr, exitCode }).toEqual({
    stderr: expect.stringContaining("expected items with two different prompts"),
    exitCode: 2,
  });
});

test("files that cannot be written are refused before the evaluation, and none is another's", async () => {
  const { root, shorten } = folder();
  const [place, missing, input] = [join(root, "one"), join(root, "none", "out"), join(root, "chats.jsonl")];
  const before = readFileSync(input, "utf8");
  const refusals: readonly [readonly string[], RegExp, number][] = [
    [["--out", root, "--force"], /expected a file or nothing/, 2],
    [["--out", missing, "--force"], /expected a folder for/, 2],
    [["--out", place, "--journal", `${root}/./one`], /--journal to be another file than --out/, 2],
    [["--journal", input], /--journal to be another file than <file>/, 2],
    [["--journal", missing, "--methods", "rules"], /expected to read and write .*none.*--journal/s, 1],
  ];
  for (const [args, message, code] of refusals) {
    const { stdout, stderr, exitCode } = await shorten(...args);
    expect({ stdout, stderr, exitCode }).toEqual({
      stdout: "",
      stderr: expect.stringMatching(message),
      exitCode: code,
    });
  }
  expect(readFileSync(input, "utf8")).toBe(before);
}, 120_000);
