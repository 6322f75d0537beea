/** Names the blocks of a request's prompt, so that routing can tell which instance has computed the prefix before. */

import type { RequestBody } from "../../gateway/request.js";
import type { JobOwner } from "../../text/async-tokenizer.js";
import { blockKey, rootKey, scopedSalt } from "../../text/block-hash.js";

export interface PrefixKeys {
  /** Keys of the complete blocks, from the first on. Each key names its block and all blocks before it. */
  readonly keys: readonly number[];
  /** Length of the prompt in blocks; a partial block counts as a fraction. */
  readonly numBlocks: number;
  /** An estimate if the engine's tokenizer is not available. */
  readonly promptTokens: number;
  /** Tokens per block if keys name blocks of tokens, like the engine's own cache; absent if they name text. */
  readonly blockSize?: number;
}

/** Creates keys from the engine's own token ids if its tokenizer is available, otherwise from text. */
export interface KeySource {
  readonly tokensPerBlock: number;
  /**
   * @param path path of the request
   * @param numBytes size of its body
   * @param scope cache scope of the request; "" or absent: the shared one
   * @param owner tenant whose turn in the tokenizer the request uses
   */
  keysOf(
    body: RequestBody,
    path: string,
    numBytes: number,
    scope?: string,
    owner?: JobOwner,
  ): PrefixKeys | Promise<PrefixKeys>;
}

/** Typical of English, code and JSON, which have between three and five. */
const BYTES_PER_TOKEN = 4;
const BLOCK_BYTES = 128;
const BLOCK_WORDS = BLOCK_BYTES / 4;
/** Bytes of a prompt that are hashed: prompts that share a mebibyte go to the same instance anyway. */
const MAX_HASHED_BYTES = 1024 * 1024;

/** The fields in the order of templates: shared text comes first. */
const PROMPT_FIELDS = ["tools", "system", "instructions", "messages", "prompt", "input"] as const;

/** Creates keys from blocks of the prompt's fields as normalised JSON, independent of the client's white space. */
export class TextKeySource implements KeySource {
  readonly tokensPerBlock = BLOCK_BYTES / BYTES_PER_TOKEN;
  readonly #bytes = Buffer.from(new ArrayBuffer(MAX_HASHED_BYTES));
  readonly #words = new Int32Array(this.#bytes.buffer);

  keysOf(body: RequestBody, _path?: string, _numBytes?: number, scope = ""): PrefixKeys {
    let numBytes = 0;
    let numHashed = 0;
    for (const field of PROMPT_FIELDS) {
      const value = body[field];
      if (value === undefined || value === null) continue;
      const { text, numUnwritten } = fieldText(field, value, MAX_HASHED_BYTES - numHashed);
      // Beyond the hashed part, characters approximate bytes: an exact count would take another pass.
      if (numHashed === numBytes) numHashed += this.#bytes.write(text, numHashed);
      numBytes += Math.max(text.length, numHashed - numBytes) + numUnwritten;
    }
    const salt = typeof body.cache_salt === "string" ? body.cache_salt : undefined;
    let key = rootKey(scopedSalt(scope, salt));
    const keys: number[] = [];
    for (let start = 0; start + BLOCK_WORDS <= numHashed >>> 2; start += BLOCK_WORDS) {
      key = blockKey(key, this.#words, start, BLOCK_WORDS);
      keys.push(key);
    }
    return { keys, numBlocks: numBytes / BLOCK_BYTES, promptTokens: Math.ceil(numBytes / BYTES_PER_TOKEN) };
  }
}

interface FieldText {
  readonly text: string;
  /** Approximate number of characters that the field's text leaves out. */
  readonly numUnwritten: number;
}

/**
 * The hashed part of a field as JSON. It ends early, since writing megabytes would block the event loop. A list is
 * written item by item, in the same form as JSON.
 */
function fieldText(field: string, value: unknown, maxCharacters: number): FieldText {
  if (typeof value === "string") {
    const text = value.length > maxCharacters ? value.slice(0, maxCharacters) : value;
    return { text: `${field}:${text}`, numUnwritten: value.length - text.length };
  }
  const whole = plain(value);
  if (!Array.isArray(whole) || typeof whole[0] === "number") {
    return { text: `${field}:${JSON.stringify(whole)}`, numUnwritten: 0 };
  }
  const items: string[] = [];
  let numCharacters = 0;
  let numUnwritten = 0;
  for (const item of whole) {
    if (numCharacters > maxCharacters) numUnwritten += lengthOf(item);
    else {
      const { text, numLeftOut } = itemText(item, maxCharacters);
      items.push(text);
      numCharacters += text.length + 1;
      numUnwritten += numLeftOut;
    }
  }
  return { text: `${field}:[${items.join(",")}]`, numUnwritten };
}

/** The text of a message, or of one prompt in a list. */
function contentOf(item: unknown): string | undefined {
  if (typeof item === "string") return item;
  const content = (item as { readonly content?: unknown } | null | undefined)?.content;
  return typeof content === "string" ? content : undefined;
}

const lengthOf = (item: unknown): number => contentOf(item)?.length ?? BLOCK_BYTES;

function itemText(item: unknown, maxCharacters: number): { readonly text: string; readonly numLeftOut: number } {
  const content = contentOf(item);
  if (content === undefined || content.length <= maxCharacters) {
    return { text: JSON.stringify(item) ?? "null", numLeftOut: 0 };
  }
  const cut = content.slice(0, maxCharacters);
  const shorter = typeof item === "string" ? cut : { ...(item as object), content: cut };
  return { text: JSON.stringify(shorter), numLeftOut: content.length - cut.length };
}

/** Number of ids of a list that are hashed. */
const MAX_HASHED_IDS = 64 * 1024;

/** Turns Int32Arrays, which hold long lists of ids, into arrays: JSON would write them as objects. */
function plain(value: unknown): unknown {
  if (value instanceof Int32Array) return Array.from(value.subarray(0, MAX_HASHED_IDS));
  const isOfLists = Array.isArray(value) && value[0] instanceof Int32Array;
  return isOfLists ? value.slice(0, 64).map((list) => Array.from((list as Int32Array).subarray(0, 1024))) : value;
}

/** For requests that use no prefix cache: embeddings, counting tokens. */
export function withoutPrefix(numBytes: number): PrefixKeys {
  return { keys: [], numBlocks: 1, promptTokens: Math.ceil(numBytes / BYTES_PER_TOKEN) };
}
