/**
 * The tokenizer over a checked vocabulary. It handles special tokens, BOS, EOS and decoding; a `PieceEncoder` encodes
 * plain text.
 */

import { MillraceError } from "../../core/errors.js";
import type { InfillTokens } from "./infill-tokens.js";
import type { PieceEncoder } from "./piece-encoder.js";
import type { SpecialMatchers } from "./special-tokens.js";
import type { EncodeOptions, PairTemplate, Tokenizer } from "./tokenizer.js";
import { TOKEN_TYPE } from "./vocabulary.js";

interface SubwordTokenizerParts {
  readonly encoder: PieceEncoder;
  readonly matchers: SpecialMatchers;
  /** One of `TOKEN_TYPE` per id. */
  readonly types: Uint8Array;
  readonly maxTokenLength: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly stopIds: ReadonlySet<number>;
  readonly infill: InfillTokens | undefined;
  readonly addsBos: boolean;
  readonly addsEos: boolean;
  /** The token after a text where `addsEos`; absent: eosId. */
  readonly endId?: number | undefined;
  readonly pair?: PairTemplate | undefined;
  readonly hasOwnExpressions?: boolean;
}

const SPACE = 0x20;

export class SubwordTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly maxTokenLength: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly stopIds: ReadonlySet<number>;
  readonly infill: InfillTokens | undefined;
  readonly addsBos: boolean;
  readonly addsEos: boolean;
  readonly stripsLeadingSpace: boolean;
  readonly pair: PairTemplate | undefined;
  readonly #endId: number | undefined;
  readonly hasOwnExpressions: boolean;
  readonly #encoder: PieceEncoder;
  readonly #matchers: SpecialMatchers;
  readonly #types: Uint8Array;
  readonly #bytesById: (Uint8Array | undefined)[];

  constructor(parts: SubwordTokenizerParts) {
    this.vocabSize = parts.types.length;
    this.maxTokenLength = parts.maxTokenLength;
    this.bosId = parts.bosId;
    this.eosId = parts.eosId;
    this.stopIds = parts.stopIds;
    this.infill = parts.infill;
    this.addsBos = parts.addsBos;
    this.addsEos = parts.addsEos;
    this.stripsLeadingSpace = parts.encoder.stripsLeadingSpace;
    this.pair = parts.pair;
    this.#endId = parts.endId ?? parts.eosId;
    this.hasOwnExpressions = parts.hasOwnExpressions === true;
    this.#encoder = parts.encoder;
    this.#matchers = parts.matchers;
    this.#types = parts.types;
    this.#bytesById = new Array<Uint8Array | undefined>(this.vocabSize).fill(undefined);
  }

  encode(text: string, options: EncodeOptions): number[] {
    // A lone surrogate has no UTF-8 form, so encoders replace it with U+FFFD.
    const wellFormed = text.replace(/\p{Surrogate}/gu, "\ufffd");
    const matcher = options.parseSpecial ? this.#matchers.all : this.#matchers.userDefined;
    const ids: number[] = [];
    if (options.addSpecial && this.addsBos && this.bosId !== undefined) ids.push(this.bosId);
    let from = 0;
    const run = { start: 0, end: -1 };
    for (
      let match = matcher.find(wellFormed, 0, 0, run);
      match !== undefined;
      match = matcher.find(wellFormed, match.end, from, run)
    ) {
      this.#encodePlain(wellFormed.slice(from, match.start), ids, from === 0);
      // Skips a match inside white space that the previous token absorbed.
      if (match.start < match.resumeAt) ids.push(match.id);
      from = match.resumeAt;
    }
    this.#encodePlain(wellFormed.slice(from), ids, from === 0);
    if (options.addSpecial && this.addsEos && this.#endId !== undefined) ids.push(this.#endId);
    return ids;
  }

  decode(ids: ArrayLike<number>, options?: { readonly keepSpecial?: boolean }): string {
    const chunks: Uint8Array[] = [];
    for (let i = 0; i < ids.length; i++) {
      const bytes = this.tokenBytes(ids[i]!);
      if (options?.keepSpecial === true || !this.isSpecial(ids[i]!)) chunks.push(bytes);
    }
    const bytes = Buffer.concat(chunks);
    const stripsFirst = this.stripsLeadingSpace && bytes[0] === SPACE;
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(stripsFirst ? bytes.subarray(1) : bytes);
  }

  tokenBytes(id: number): Uint8Array {
    this.#checkId(id);
    const known = this.#bytesById[id];
    if (known !== undefined) return known;
    const bytes = this.#encoder.bytesOf(id);
    this.#bytesById[id] = bytes;
    return bytes;
  }

  isSpecial(id: number): boolean {
    this.#checkId(id);
    const type = this.#types[id];
    return type === TOKEN_TYPE.control || type === TOKEN_TYPE.unknown || type === TOKEN_TYPE.unused;
  }

  #encodePlain(text: string, ids: number[], isStart: boolean): void {
    if (text !== "") this.#encoder.encode(text, ids, isStart);
  }

  #checkId(id: number): void {
    if (Number.isInteger(id) && id >= 0 && id < this.vocabSize) return;
    throw new MillraceError("token_out_of_range", `expected a token id in 0..${this.vocabSize - 1}, got ${id}`, {
      hint: "Token ids must come from this model's own tokenizer.",
    });
  }
}
