/** Names the blocks of a request's prompt, so that routing can tell which instance has computed its beginning before. */
import type { JobOwner } from "../../text/async-tokenizer.js";
import { blockKey, rootKey, scopedSalt } from "../../text/block-hash.js";

/** A request's JSON, as parsed. */
export type RequestBody = Readonly<Record<string, unknown>>;

export interface PrefixKeys {
  /** Chained: a key names its block and all before it. Whole blocks only, from the first on. */
  readonly keys: readonly number[];
  /** Length of the whole prompt in blocks, its unfinished end counted as a part of one. */
  readonly numBlocks: number;
  /** Estimated where the engine's tokenizer is not at hand. */
  readonly promptTokens: number;
  /** Tokens of a block where keys name blocks of tokens, as the engine's own cache does; absent: they name text. */
  readonly blockSize?: number;
}

/** Text for engines whose tokenizer we do not have; token ids, exactly as the engine's own cache names them, where we do. */
export interface KeySource {
  readonly tokensPerBlock: number;
  /** @param path of the request @param numBytes of its body @param scope whose prefixes it may use; "" or absent: everybody's @param owner absent: nobody's */
  keysOf(
    body: RequestBody,
    path: string,
    numBytes: number,
    scope?: string,
    owner?: JobOwner,
  ): PrefixKeys | Promise<PrefixKeys>;
}

/** English, code and JSON have between three and five. */
const BYTES_PER_TOKEN = 4;
const BLOCK_BYTES = 128;
const BLOCK_WORDS = BLOCK_BYTES / 4;
/** Beyond it nothing is hashed: prompts that share a mebibyte go to the same instance anyway. */
const MAX_HASHED_BYTES = 1024 * 1024;

/** In the order in which templates put them into a prompt: what is the same for many requests comes first. */
const PROMPT_FIELDS = ["tools", "system", "instructions", "messages", "prompt", "input"] as const;

/** Blocks of bytes of the prompt's fields as JSON, which is the same however the client spaced it. */
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
      // Characters stand for bytes where counting them would take another pass.
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
  /** Characters of the field that were left out, about. */
  readonly numUnwritten: number;
}

/** A field as JSON, as far as it may be hashed: writing megabytes out would hold up everybody. A list is written item by item, like JSON writes it. */
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

/** The text of a message, or of a prompt of several. */
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

/** Beyond so many a list of ids fills what is hashed. */
const MAX_HASHED_IDS = 64 * 1024;

/** Long lists of ids come as Int32Arrays, which JSON writes otherwise. */
function plain(value: unknown): unknown {
  if (value instanceof Int32Array) return Array.from(value.subarray(0, MAX_HASHED_IDS));
  const isOfLists = Array.isArray(value) && value[0] instanceof Int32Array;
  return isOfLists ? value.slice(0, 64).map((list) => Array.from((list as Int32Array).subarray(0, 1024))) : value;
}

/** Of requests that no cache helps: embeddings, counting tokens. */
export function withoutPrefix(numBytes: number): PrefixKeys {
  return { keys: [], numBlocks: 1, promptTokens: Math.ceil(numBytes / BYTES_PER_TOKEN) };
}
