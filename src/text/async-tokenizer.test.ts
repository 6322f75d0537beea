/** A separate thread encodes long texts and gives the same tokens. */
import { copyFileSync, mkdtempSync, renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, expect, test, vi } from "vitest";
import { fixture, hasFixture, repositoryRoot } from "../../test/helpers/fixtures.js";
import { AsyncTokenizer } from "./async-tokenizer.js";
import { tokenText } from "./token-text.js";
import { loadTokenizer, tokenizerSource } from "./tokenizer-source.js";

afterEach(() => vi.restoreAllMocks());

const MODEL = fixture("models/stories260k.gguf");
const OTHER = join(repositoryRoot(), "models/mill-base.gguf");
const options = { addSpecial: true, parseSpecial: true };
const long = Array.from({ length: 5000 }, (_, i) => `word${i * 7919}`).join(" ");

function encoderOf(path: string) {
  const source = tokenizerSource(path);
  const tokenizer = loadTokenizer(source);
  const encode = vi.spyOn(tokenizer, "encode");
  return { encoder: new AsyncTokenizer(tokenizer, source), tokenizer, encode };
}

test("the thread encodes a long text and texts that are long together; the caller encodes short ones", async () => {
  const { encoder, tokenizer, encode } = encoderOf(MODEL);
  const pieces = long.match(/.{1,1000}/g)!;
  const [whole, parts] = await Promise.all([encoder.encode([long], options), encoder.encode(pieces, options)]);
  expect(encode).not.toHaveBeenCalled();
  expect(whole).toEqual([{ ids: Int32Array.from(tokenizer.encode(long, options)) }]);
  expect(parts).toEqual(pieces.map((piece) => ({ ids: Int32Array.from(tokenizer.encode(piece, options)) })));
  encode.mockClear();
  expect(await encoder.encode(["Once upon a time"], options)).toHaveLength(1);
  expect(encode).toHaveBeenCalledOnce();
});

test("the thread lists the tokens of long texts and decodes long lists of ids", async () => {
  const { encoder, tokenizer, encode } = encoderOf(MODEL);
  const decode = vi.spyOn(tokenizer, "decode");
  const { count, ids, texts } = await encoder.list(long, options, "texts");
  const read = (bytes: Uint8Array) => JSON.parse(Buffer.from(bytes).toString());
  const back = await encoder.decode(read(ids));
  expect([encode.mock.calls, decode.mock.calls]).toEqual([[], []]);
  const expected = tokenizer.encode(long, options);
  expect([count, read(ids)]).toEqual([expected.length, expected]);
  expect(read(texts)).toEqual(expected.map((id) => tokenText(tokenizer, id)));
  expect(back).toBe(tokenizer.decode(expected, { keepSpecial: true }));
  expect(read((await encoder.list("short", options, "none")).texts)).toBeNull();
  const wrong = Int32Array.from({ length: 20_000 }, () => 99_999);
  await expect(encoder.decode(wrong)).rejects.toMatchObject({ code: "token_out_of_range" });
});

test("the loaded tokenizer stays in use after another file replaces the model", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-encoder-"));
  const path = join(folder, "model.gguf");
  copyFileSync(MODEL, path);
  const { encoder, tokenizer, encode } = encoderOf(path);
  copyFileSync(OTHER, `${path}.new`);
  renameSync(`${path}.new`, path);
  const expected = Int32Array.from(tokenizer.encode(long, options));
  encode.mockClear();
  const terminate = vi.spyOn(Worker.prototype, "terminate");
  expect(await Promise.all([encoder.encode([long], options), encoder.encode([long], options)])).toEqual([
    [{ ids: expected }],
    [{ ids: expected }],
  ]);
  expect(encode).toHaveBeenCalledTimes(2);
  expect(terminate).toHaveBeenCalledOnce();
  expect(() => loadTokenizer({ path, state: "another" })).toThrow(
    expect.objectContaining({ code: "model_file_changed" }),
  );
});

test("a text far above the token limit is not encoded to its end, whatever it begins with", async () => {
  const { tokenizer, encode } = encoderOf(MODEL);
  const here = new AsyncTokenizer(tokenizer);
  const spaces = " ".repeat(3000);
  const [refused] = await here.encode([spaces + long.repeat(20)], options, 100);
  expect(refused!.ids).toHaveLength(0);
  expect(refused!.atLeast).toBeGreaterThan(100);
  expect(encode.mock.calls.reduce((sum, [text]) => sum + text.length, 0)).toBeLessThan(8000);
  for (const text of [spaces, "Once upon a time. ".repeat(40), long.slice(0, 900)]) {
    const ids = Int32Array.from(tokenizer.encode(text, options));
    const [encoded] = await here.encode([text], options, ids.length);
    expect(encoded).toEqual({ ids });
  }
});

const PHI3 = "tokenizers/ggml-vocab-phi-3.gguf";
const SWALLOWS = "white space that a special token swallows is no reason to refuse a text (needs fixtures/tokenizers)";
test.skipIf(!hasFixture(PHI3))(SWALLOWS, async () => {
  const tokenizer = loadTokenizer(tokenizerSource(fixture(PHI3)));
  const maxTokens = 200;
  const cut = 8 * maxTokens;
  const swallowed = "\n\t \u000b".repeat(cut);
  const early = `Hello<|end|>${swallowed}Hello`;
  // The cut splits the special token, so its slice does not show that the token swallows the white space.
  const late = `${"<|end|>".repeat(120).padEnd(cut - 3)}<|end|>${swallowed}`;
  for (const text of [early, late]) {
    const ids = Int32Array.from(tokenizer.encode(text, options));
    expect(ids.length).toBeLessThanOrEqual(maxTokens);
    expect(await new AsyncTokenizer(tokenizer).encode([text], options, maxTokens)).toEqual([{ ids }]);
  }
});

test("tenants take turns at the thread", async () => {
  const { encoder } = encoderOf(MODEL);
  const ended: string[] = [];
  const jobs = ["a", "a", "a", "a", "b"].map(async (tenant) => {
    await encoder.of({ tenant }).encode([long], options);
    ended.push(tenant);
  });
  await Promise.all(jobs);
  expect(ended).toEqual(["a", "b", "a", "a", "a"]);
});

test("a queued text is never encoded after its client leaves; every watch ends with its job", async () => {
  const { encoder } = encoderOf(MODEL);
  const post = vi.spyOn(Worker.prototype, "postMessage");
  const leave: (() => void)[] = [];
  const endWatch = vi.fn();
  const watch = (call: () => void) => {
    leave.push(call);
    return endWatch;
  };
  const watched = encoder.of({ tenant: "", watch });
  const [first, second, third] = [1, 2, 3].map(() => watched.encode([long], options));
  leave[1]!();
  await expect(second).rejects.toMatchObject({ code: "client_closed" });
  await Promise.all([first, third]);
  expect(post).toHaveBeenCalledTimes(2);
  expect(endWatch).toHaveBeenCalledTimes(3);
});

test("the thread of an ended tokenizer ends after its jobs, and so does a thread that starts for a later job", async () => {
  const { encoder } = encoderOf(MODEL);
  const terminate = vi.spyOn(Worker.prototype, "terminate");
  const jobs = [encoder.encode([long], options), encoder.encode([long], options)];
  encoder.end();
  expect(terminate).not.toHaveBeenCalled();
  const [first, second] = await Promise.all(jobs);
  expect(second).toEqual(first);
  expect(terminate).toHaveBeenCalledOnce();
  expect(await encoder.encode([long], options)).toEqual(first);
  expect(terminate).toHaveBeenCalledTimes(2);
});

test("white space that merges into longer tokens counts as those, so that no text that fits is refused", async () => {
  // An x with twenty line ends is one token; every other character is one token, too.
  const encode = (text: string) => Array.from(text.match(/x\n{20}|./gs) ?? [], () => 7);
  const here = new AsyncTokenizer({ encode } as never);
  const [encoded] = await here.encode([`x${"\n".repeat(20)}`.repeat(1000)], options, 1000);
  expect(encoded).toEqual({ ids: new Int32Array(1000).fill(7) });
});
