/**
 * A tokenizer.json with an endless regular expression: the serving thread never waits for it, and the request ends with
 * an error code.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { fixture } from "../../test/helpers/fixtures.js";
import { atLimit, CATASTROPHIC, TIMEOUT, writeFolderWithRegex } from "../../test/helpers/regex-folder.js";
import { isKnownRegex, translateRegex } from "./hf/regex.js";
import { loadTextSide } from "./text-side.js";
import { TRIAL_TEXTS } from "./trial-texts.js";

const root = mkdtempSync(join(tmpdir(), "millrace-hostile-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** The threads use real clocks. */
beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

let numFolders = 0;
const folderWith = (regex: string) => writeFolderWithRegex(join(root, String(numFolders++)), regex);

/** Like CATASTROPHIC, but for a letter without a run in the trial texts. */
const LATER = "(Z+)+$|[^Z]+";
const options = { addSpecial: false, parseSpecial: true };

test("never ends at some text of the trial, and the other one at none", () => {
  const hasEnd = (regex: string) => {
    const texts = TRIAL_TEXTS.map((text) => JSON.stringify(text));
    const code = `for (const text of [${texts}]) for (const _ of text.matchAll(${translateRegex(regex)}));`;
    return () => runInNewContext(code, {}, { timeout: 2000 });
  };
  expect(hasEnd(CATASTROPHIC)).toThrow(/timed out/);
  expect(hasEnd(LATER)).not.toThrow();
});

test("is refused where its text side is read, as a server does at its start", async () => {
  const [refused] = await Promise.all([loadTextSide(folderWith(CATASTROPHIC)).catch((thrown) => thrown), atLimit()]);
  expect(refused).toMatchObject(TIMEOUT);
});

describe("that only some text shows", () => {
  test("costs the request with that text, and no other", async () => {
    const { tokenizer, asyncTokenizer } = await loadTextSide(folderWith(LATER));
    const encode = vi.spyOn(tokenizer, "encode");
    const hostile = `${"Z".repeat(60)}!`;
    const [refused] = await Promise.all([
      asyncTokenizer.encode([hostile], options).catch((thrown) => thrown),
      atLimit(),
    ]);
    expect(refused).toMatchObject(TIMEOUT);
    const [encoded] = await asyncTokenizer.encode(["Once upon a time"], options);
    expect(encode).not.toHaveBeenCalled();
    expect([...encoded!.ids]).toEqual(tokenizer.encode("Once upon a time", options));
    await expect(asyncTokenizer.list("a text", options, "texts")).resolves.toMatchObject({ count: expect.any(Number) });
    asyncTokenizer.end();
  });

  test("is not encoded by a thread that reads other files, nor by the caller's", async () => {
    const folder = folderWith(LATER);
    const { tokenizer, asyncTokenizer } = await loadTextSide(folder);
    asyncTokenizer.end();
    writeFileSync(join(folder, "tokenizer_config.json"), "{}");
    const encode = vi.spyOn(tokenizer, "encode");
    await expect(asyncTokenizer.encode(["a"], options)).rejects.toMatchObject({ code: "model_file_changed" });
    expect(encode).not.toHaveBeenCalled();
  });
});

test("published expressions are known, and encode short texts where they are asked for", async () => {
  const expressionsIn = (value: unknown): string[] =>
    typeof value !== "object" || value === null
      ? []
      : Object.entries(value).flatMap(([key, inner]) => (key === "Regex" ? [String(inner)] : expressionsIn(inner)));
  const published = ["xlm_roberta", "deepseek3", "gpt4o", "llama3", "qwen2"].map((name) =>
    fixture(`hf-tokenizers/${name}/tokenizer.json`),
  );
  const expressions = published.flatMap((path) => expressionsIn(JSON.parse(readFileSync(path, "utf8"))));
  expect(expressions.length).toBeGreaterThan(3);
  expect(expressions.filter((expression) => !isKnownRegex(expression))).toEqual([]);
  expect([CATASTROPHIC, LATER, `${expressions[0]}|(a+)+$`].filter(isKnownRegex)).toEqual([]);
  const { tokenizer, asyncTokenizer } = await loadTextSide(folderWith(expressions.at(-1)!));
  const encode = vi.spyOn(tokenizer, "encode");
  await asyncTokenizer.encode(["short"], options);
  expect(encode).toHaveBeenCalledOnce();
});
