/** Keys of token blocks, for models whose prompts the fleet can make itself: the very names under which their engines' caches have them. */
import type { JobOwner } from "../../text/async-tokenizer.js";
import { blockKey, rootKey, scopedSalt } from "../../text/block-hash.js";
import type { KeySource, PrefixKeys, RequestBody, TextKeySource } from "./key-source.js";

/** The prompts of a request, as its engine will make them; undefined where that is not known. */
export interface PromptReader {
  (path: string, body: RequestBody, owner: JobOwner): Promise<Prompts | undefined>;
  /** Frees what it holds beside memory, where it holds any. */
  readonly end?: () => void;
}

interface Prompts {
  readonly prompts: readonly ArrayLike<number>[];
  readonly salt: string | undefined;
}

/** Longer requests are named by their text: making tokens of them would take longer than routing by tokens saves. */
const MAX_READ_BYTES = 256 * 1024;
/** So are requests of more messages or items: a chat template takes up to a hundred microseconds for each. */
const MAX_READ_ITEMS = 256;

function isReadable(body: RequestBody, numBytes: number): boolean {
  const isShort = (list: unknown) =>
    !Array.isArray(list) || typeof list[0] === "number" || list.length <= MAX_READ_ITEMS;
  return numBytes <= MAX_READ_BYTES && isShort(body.messages) && isShort(body.input);
}

export class TokenKeySource implements KeySource {
  /** @param byText where the prompt cannot be read */
  constructor(
    private readonly read: PromptReader,
    readonly tokensPerBlock: number,
    private readonly byText: TextKeySource,
  ) {}

  /** Of several prompts the first one's: requests that share the beginning of a list are rare. */
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
    let key = rootKey(scopedSalt(scope, request.salt));
    // The last token is always computed, so a block that ends with it is never found.
    for (let start = 0; start + blockSize < first.length; start += blockSize) {
      key = blockKey(key, first, start, blockSize);
      keys.push(key);
    }
    const promptTokens = request.prompts.reduce((sum, { length }) => sum + length, 0);
    return { keys, numBlocks: promptTokens / blockSize, promptTokens, blockSize };
  }
}
