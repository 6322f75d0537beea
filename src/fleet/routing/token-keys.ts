/**
 * Keys of token blocks, for models whose prompts the fleet can tokenize. They equal the keys in the engine's own prefix
 * cache.
 */

import type { RequestBody } from "../../gateway/request.js";
import type { JobOwner } from "../../text/async-tokenizer.js";
import { blockKey, rootKey, scopedSalt } from "../../text/block-hash.js";
import type { KeySource, PrefixKeys, TextKeySource } from "./key-source.js";

/** Builds the prompts of a request as its engine will; resolves to undefined if it cannot. */
export interface PromptReader {
  (path: string, body: RequestBody, owner: JobOwner): Promise<Prompts | undefined>;
  /** Releases the reader's threads and files, if any. */
  readonly end?: () => void;
}

export type SaltOf = (scope: string, own: string | undefined) => string | undefined;

interface Prompts {
  readonly prompts: readonly ArrayLike<number>[];
  readonly salt: string | undefined;
}

/** Longer requests are keyed by text: tokenizing them would take longer than routing by tokens saves. */
const MAX_READ_BYTES = 256 * 1024;
/**
 * Requests with more messages or items are also keyed by text: a chat template takes up to a hundred microseconds for
 * each.
 */
const MAX_READ_ITEMS = 256;

function isReadable(body: RequestBody, numBytes: number): boolean {
  const isShort = (list: unknown) =>
    !Array.isArray(list) || typeof list[0] === "number" || list.length <= MAX_READ_ITEMS;
  return numBytes <= MAX_READ_BYTES && isShort(body.messages) && isShort(body.input);
}

export class TokenKeySource implements KeySource {
  /**
   * @param byText key source for prompts that the fleet cannot tokenize
   * @param saltOf salt of the engine's stored prefixes, from the request's cache scope and own salt
   */
  constructor(
    private readonly read: PromptReader,
    readonly tokensPerBlock: number,
    private readonly byText: TextKeySource,
    private readonly saltOf: SaltOf = scopedSalt,
  ) {}

  /** Keys of the first prompt only: requests with several prompts rarely share more. */
  async keysOf(
    body: RequestBody,
    path: string,
    numBytes: number,
    scope = "",
    owner: JobOwner = { tenant: "" },
  ): Promise<PrefixKeys> {
    const request = isReadable(body, numBytes) ? await this.read(path, body, owner) : undefined;
    const first = request?.prompts[0];
    if (request === undefined || first === undefined) return this.byText.keysOf(body, path, numBytes, scope);
    const blockSize = this.tokensPerBlock;
    const keys: number[] = [];
    let key = rootKey(this.saltOf(scope, request.salt));
    // The engine always computes the last token, so it never finds a block that ends with it.
    for (let start = 0; start + blockSize < first.length; start += blockSize) {
      key = blockKey(key, first, start, blockSize);
      keys.push(key);
    }
    const promptTokens = request.prompts.reduce((sum, { length }) => sum + length, 0);
    return { keys, numBlocks: promptTokens / blockSize, promptTokens, blockSize };
  }
}
