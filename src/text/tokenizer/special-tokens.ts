/** Special tokens: the stop tokens, the tokens that are matched in text, and the search for them. */

import type { GgufMetadata } from "../../formats/gguf/types.js";
import { readTokenId, TOKEN_TYPE, type Vocabulary } from "./vocabulary.js";

/** Texts that end a turn or a document in published models, whatever the metadata says (llama.cpp's list). */
const STOP_TEXTS = [
  "<|eot_id|>",
  "<|im_end|>",
  "<|end|>",
  "<|return|>",
  "<|call|>",
  "<|flush|>",
  "<|calls|>",
  "<end_of_turn>",
  "<|endoftext|>",
  "</s>",
  "<|eom_id|>",
  "<EOT>",
  "_<EOT>",
  "[EOT]",
  "[EOS]",
  "<|end_of_text|>",
  "<end_of_utterance>",
  "<eos>",
  "<turn|>",
  "<|tool_response>",
  "<｜end▁of▁sentence｜>",
  "[e~[",
  // Fill-in-the-middle: padding, and the start of another repository or file.
  "<|fim_pad|>",
  "<fim-pad>",
  "<fim_pad>",
  "<PAD>",
  "[PAD]",
  "<|fim_repo|>",
  "<|repo_name|>",
  "<fim-repo>",
  "<REPO>",
  "<reponame>",
  "<|file_sep|>",
] as const;

const STOP_ID_KEYS = ["eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"] as const;

/** The ids of texts that end a turn in published models. */
export function stopIdsByText(vocab: Vocabulary): Set<number> {
  const stopIds = new Set<number>();
  for (const text of STOP_TEXTS) {
    const id = vocab.idByText.get(text);
    if (id !== undefined && !isFalseStop(text, vocab)) stopIds.add(id);
  }
  return stopIds;
}

/**
 * Harmony's end tokens of a turn: of an answer or a call. If a configuration names only the first, a call would never
 * end.
 */
export function harmonyStopIds({ idByText }: Vocabulary): readonly number[] {
  const ids = ["<|return|>", "<|call|>"].flatMap((text) => idByText.get(text) ?? []);
  return ids.length === 2 ? ids : [];
}

export function findStopIds(metadata: GgufMetadata, vocab: Vocabulary, eosId: number | undefined): Set<number> {
  const stopIds = stopIdsByText(vocab);
  if (eosId !== undefined) stopIds.add(eosId);
  for (const key of STOP_ID_KEYS) {
    const id = readTokenId(metadata, `tokenizer.ggml.${key}_token_id`, vocab);
    if (id !== undefined) stopIds.add(id);
  }
  return stopIds;
}

/** Whether a text has another meaning because certain other tokens exist. */
function isFalseStop(text: (typeof STOP_TEXTS)[number], vocab: Vocabulary): boolean {
  const has = (other: string): boolean => vocab.idByText.has(other);
  // Harmony's and Solar's <|end|> ends a message, and the turn continues.
  if (text === "<|end|>") return (has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"));
  // Gemma's </s> is an HTML tag.
  if (text === "</s>") return has("<end_of_turn>") || has("<|tool_response>");
  return false;
}

/** Token types in which stop tokens are control tokens, because some converters mark them as plain text. */
export function typesWithStops(vocab: Vocabulary, stopIds: ReadonlySet<number>): Uint8Array {
  const types = vocab.types.slice();
  for (const id of stopIds) types[id] = TOKEN_TYPE.control;
  return types;
}

/** Phi-3's special tokens except these absorb the white space after them. The metadata has no field for that. */
const PHI3_KEEPS_SPACE_AFTER = new Set(["<unk>", "<s>", "<|endoftext|>"]);

/** Whether this special token absorbs the white space after it, in a model with phi3's spacing. */
export const takesSpaceAfter = (text: string): boolean => !PHI3_KEEPS_SPACE_AFTER.has(text);

export function hasPhi3Spacing(metadata: GgufMetadata): boolean {
  const name = metadata.string("general.name")?.toLowerCase() ?? "";
  return metadata.string("general.architecture") === "phi3" || name.includes("phi-3") || name.includes("phi3");
}

interface SpecialMatch {
  readonly id: number;
  readonly start: number;
  readonly end: number;
  /**
   * The position at which the text continues; beyond `end` if the token absorbs the white space after it (`start`
   * likewise).
   */
  readonly resumeAt: number;
}

interface Run {
  start: number;
  end: number;
}

interface TrieNode {
  readonly children: Map<number, TrieNode>;
  id: number;
}

/** Rules for the text around tokens. */
interface Surroundings {
  /** The characters that count as white space. */
  readonly spaces: string;
  /** The tokens that absorb the white space after them, and before them. */
  readonly after: ReadonlySet<number>;
  readonly before?: ReadonlySet<number>;
  /** The tokens that count only between word boundaries. */
  readonly singleWords?: ReadonlySet<number>;
}

/** Word characters by Hugging Face's package: its regular expressions' \w (UTS #18). */
const STARTS_WITH_WORD = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

function isWithinWord(text: string, start: number, end: number): boolean {
  const isPair = start > 1 && /^[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(start - 2, start));
  const before = text.slice(Math.max(0, start - (isPair ? 2 : 1)), start);
  return STARTS_WITH_WORD.test(before) || STARTS_WITH_WORD.test(text.slice(end, end + 2));
}

/** Finds special tokens in text: the leftmost one, and the longest of those that start there. */
class SpecialMatcher {
  readonly #root: TrieNode = { children: new Map(), id: -1 };

  constructor(
    textById: Iterable<readonly [number, string]>,
    private readonly surroundings: Surroundings,
  ) {
    for (const [id, text] of textById) this.#insert(text, id);
  }

  /**
   * @param from position at which the search begins
   * @param free position after the text that the previous match absorbed, since absorbed white space may still be a
   *   token
   * @param run the last absorbed white space, kept per text, so that many tokens within it do not each walk to its end
   */
  find(text: string, from: number, free = from, run: Run = { start: 0, end: -1 }): SpecialMatch | undefined {
    for (let start = from; start < text.length; start++) {
      let node = this.#root.children.get(text.charCodeAt(start));
      let id = -1;
      let end = start;
      for (let i = start + 1; node !== undefined; i++) {
        if (node.id !== -1) {
          id = node.id;
          end = i;
        }
        node = node.children.get(text.charCodeAt(i));
      }
      if (id === -1) continue;
      if (this.surroundings.singleWords?.has(id) !== true || !isWithinWord(text, start, end)) {
        return this.#withSpace(text, free, run, { id, start, end, resumeAt: end });
      }
      // As in Hugging Face's package, overlapping tokens are skipped too.
      start = end - 1;
    }
    return undefined;
  }

  #withSpace(text: string, free: number, run: Run, match: SpecialMatch): SpecialMatch {
    const { spaces, before, after } = this.surroundings;
    let { start, end: resumeAt } = match;
    if (after.has(match.id)) {
      if (resumeAt >= run.start && resumeAt < run.end) resumeAt = run.end;
      else {
        run.start = resumeAt;
        while (resumeAt < text.length && spaces.includes(text[resumeAt]!)) resumeAt++;
        run.end = resumeAt;
      }
    }
    if (before?.has(match.id)) {
      while (start > free && spaces.includes(text[start - 1]!)) start--;
      start = Math.max(start, free);
    }
    return { ...match, start, resumeAt };
  }

  #insert(text: string, id: number): void {
    let node = this.#root;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      const child = node.children.get(unit) ?? { children: new Map(), id: -1 };
      node.children.set(unit, child);
      node = child;
    }
    node.id = id;
  }
}

/** C's isspace, which llama.cpp uses. */
const C_SPACES = " \t\n\v\f\r";

export interface SpecialMatchers {
  /** All special tokens, for text from a chat template. */
  readonly all: SpecialMatcher;
  /** Only user-defined tokens, which are matched in every text. */
  readonly userDefined: SpecialMatcher;
}

/** @param textOf gives the text by which a token is recognised */
export function createSpecialMatchers(
  types: Uint8Array,
  textOf: (id: number) => string,
  hasPhi3Rules: boolean,
): SpecialMatchers {
  const all: [number, string][] = [];
  for (const [id, type] of types.entries()) {
    if (type === TOKEN_TYPE.control || type === TOKEN_TYPE.unknown || type === TOKEN_TYPE.userDefined)
      all.push([id, textOf(id)]);
  }
  const strips = new Set(hasPhi3Rules ? all.filter(([, text]) => takesSpaceAfter(text)).map(([id]) => id) : []);
  return matchersOf(all, types, { spaces: C_SPACES, after: strips });
}

/** @param all id and text of every token that text may contain */
export function matchersOf(
  all: readonly (readonly [id: number, text: string])[],
  types: Uint8Array,
  surroundings: Surroundings,
): SpecialMatchers {
  const userDefined = all.filter(([id]) => types[id] === TOKEN_TYPE.userDefined);
  return { all: new SpecialMatcher(all, surroundings), userDefined: new SpecialMatcher(userDefined, surroundings) };
}
