/**
 * Tokenizers of every published kind produce the same ids and texts as Hugging Face's packages
 * (test/fixtures/make-hf-tokenizers.py).
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import type { ChatMessage } from "../template/prepare-messages.js";
import { readHfChatTemplate } from "./chat-template.js";
import { createHfTokenizer } from "./create-tokenizer.js";

interface Expected {
  readonly size: number;
  readonly samples: readonly {
    readonly text: string;
    readonly ids: number[];
    readonly plain: number[];
    readonly decoded: string;
    /** Decoded text including special tokens. */
    readonly kept?: string;
  }[];
  readonly chats: readonly {
    readonly messages: readonly ChatMessage[];
    readonly text: string;
    readonly ids: number[];
  }[];
  readonly pairs?: readonly {
    readonly texts: readonly [string, string];
    readonly ids: number[];
    readonly types: number[];
  }[];
}

const root = fixture("hf-tokenizers");

describe.each(readdirSync(root))("%s", (name) => {
  const folder = join(root, name);
  const {
    size,
    samples,
    chats,
    pairs = [],
  } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as Expected;
  const tokenizer = createHfTokenizer(folder, size + 3);

  it("has a token for each row of the embedding", () => {
    expect(tokenizer.vocabSize).toBe(size + 3);
  });

  it.each(samples)("encodes $text", ({ text, ids, plain }) => {
    expect(tokenizer.encode(text, { addSpecial: false, parseSpecial: true })).toEqual(plain);
    expect(tokenizer.encode(text, { addSpecial: true, parseSpecial: true })).toEqual(ids);
  });

  it.each(samples)("decodes $text", ({ ids, decoded, kept }) => {
    expect(tokenizer.decode(ids)).toBe(decoded);
    if (kept !== undefined) expect(tokenizer.decode(ids, { keepSpecial: true })).toBe(kept);
  });

  it.each(pairs)("joins $texts", ({ texts, ids, types }) => {
    const { before, between, after, numBetweenOfFirst } = tokenizer.pair!;
    const [a, b] = texts.map((text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: true }));
    expect([...before, ...a!, ...between, ...b!, ...after]).toEqual(ids);
    if (types.includes(1)) expect(before.length + a!.length + numBetweenOfFirst).toBe(types.indexOf(1));
  });

  it.each(chats)("renders $messages", ({ messages, text, ids }) => {
    const rendered = readHfChatTemplate(folder)!.render({ messages, addGenerationPrompt: true });
    expect(rendered).toBe(text);
    expect(tokenizer.encode(rendered, { addSpecial: false, parseSpecial: true })).toEqual(ids);
  });
});

it("a model that writes Harmony ends its turn with a call too, whatever its configuration names", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-harmony-"));
  try {
    const { added_tokens: tokens, ...rest } = JSON.parse(readFileSync(join(root, "gpt4o/tokenizer.json"), "utf8")) as {
      added_tokens: { id: number }[];
    };
    const first = Math.max(...tokens.map(({ id }) => id)) + 1;
    const own = ["<|return|>", "<|end|>", "<|call|>"].map((content, i) => ({ ...tokens[0], id: first + i, content }));
    writeFileSync(join(folder, "tokenizer.json"), JSON.stringify({ ...rest, added_tokens: [...tokens, ...own] }));
    const stopsOf = (eos_token_id: number) => {
      writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ eos_token_id }));
      return [...createHfTokenizer(folder, first + 3).stopIds].toSorted((a, b) => a - b);
    };
    expect(stopsOf(first)).toEqual([first, first + 2]);
    const half = [...tokens, own[0]];
    writeFileSync(join(folder, "tokenizer.json"), JSON.stringify({ ...rest, added_tokens: half }));
    expect(stopsOf(first)).toEqual([first]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/**
 * Hugging Face's package produces these ids; it never lists a merge twice, so no folder of the script above has one.
 */
it("a merge that is listed twice has its last place", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-merges-"));
  try {
    const idsWith = (pre_tokenizer: object | null, ...merges: string[]) => {
      const vocab = { a: 0, b: 1, c: 2, ab: 3, bc: 4 };
      writeFileSync(
        join(folder, "tokenizer.json"),
        JSON.stringify({ model: { type: "BPE", vocab, merges }, pre_tokenizer }),
      );
      return createHfTokenizer(folder, 5).encode("abc", { addSpecial: false, parseSpecial: true });
    };
    const bytes = { type: "ByteLevel", add_prefix_space: false, use_regex: false };
    for (const pre of [null, bytes]) {
      expect(idsWith(pre, "a b", "b c")).toEqual([3, 2]);
      expect(idsWith(pre, "a b", "b c", "a b")).toEqual([0, 4]);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it("takes no time for a long run of a token that absorbs such tokens", () => {
  const tokenizer = createHfTokenizer(join(root, "bloom"), 500);
  const begin = computedMs();
  const ids = tokenizer.encode("\n".repeat(200_000), { addSpecial: false, parseSpecial: true });
  expect(ids).toHaveLength(200_000);
  // Takes minutes if each token walks to the end of the run.
  expect(computedMs() - begin).toBeLessThan(5000);
});
