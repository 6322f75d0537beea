/** A tokenizer without a model: one id per byte, a few special tokens, a space-prefixed word or two. */
import { MillraceError } from "../../src/core/errors.js";
import type { EncodeOptions, Tokenizer } from "../../src/text/tokenizer/tokenizer.js";

export const BOS_ID = 256;
export const EOS_ID = 257;
export const IM_START_ID = 258;
export const IM_END_ID = 259;
export const TOOL_CALLS_ID = 260;
export const FAKE_VOCAB_SIZE = 261;

const SPECIAL_TEXTS = new Map<number, string>([
  [BOS_ID, "<s>"],
  [EOS_ID, "</s>"],
  [IM_START_ID, "<|im_start|>"],
  [IM_END_ID, "<|im_end|>"],
  [TOOL_CALLS_ID, "[TOOL_CALLS]"],
]);
const ID_BY_SPECIAL_TEXT = new Map(Array.from(SPECIAL_TEXTS, ([id, text]) => [text, id]));
const SPECIAL_PATTERN = /(<s>|<\/s>|<\|im_start\|>|<\|im_end\|>|\[TOOL_CALLS\])/;

function tokenBytes(id: number): Uint8Array {
  const special = SPECIAL_TEXTS.get(id);
  if (special !== undefined) return Buffer.from(special);
  if (Number.isInteger(id) && id >= 0 && id < 256) return Uint8Array.of(id);
  throw new MillraceError("token_out_of_range", `expected an id below ${FAKE_VOCAB_SIZE}, got ${id}`);
}

export const fakeTokenizer: Tokenizer = {
  vocabSize: FAKE_VOCAB_SIZE,
  maxTokenLength: "<|im_start|>".length,
  bosId: BOS_ID,
  eosId: EOS_ID,
  stopIds: new Set([EOS_ID, IM_END_ID]),
  addsBos: true,
  addsEos: false,
  stripsLeadingSpace: false,
  encode(text: string, options: EncodeOptions): number[] {
    const ids: number[] = options.addSpecial ? [BOS_ID] : [];
    for (const piece of options.parseSpecial ? text.split(SPECIAL_PATTERN) : [text]) {
      const special = options.parseSpecial ? ID_BY_SPECIAL_TEXT.get(piece) : undefined;
      if (special !== undefined) ids.push(special);
      else for (const byte of Buffer.from(piece)) ids.push(byte);
    }
    return ids;
  },
  decode(ids, options = {}) {
    const kept = Array.from(ids).filter((id) => options.keepSpecial === true || !SPECIAL_TEXTS.has(id));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.concat(kept.map(tokenBytes)));
  },
  tokenBytes,
  isSpecial: (id) => SPECIAL_TEXTS.has(id),
};
