/** The byte-level vocabulary of random models. */
import { arr, bool, str, u32, type WritableValue } from "../../src/formats/gguf/write.js";

export const END_OF_TEXT = "<|endoftext|>";
const CONTROL_TOKENS: readonly string[] = [END_OF_TEXT, "<|im_start|>", "<|im_end|>"];
/** `tokenizer.ggml.token_type`. */
const NORMAL = 1;
const CONTROL = 3;
const USER_DEFINED = 4;
const UNUSED = 5;

/** Each merges two earlier tokens; "Ġ" is how byte-level BPE writes a space. */
const MERGES: readonly string[] = [
  "Ġ t,h e,i n,Ġ a,r e,o n,Ġt he,e r,Ġ s,a t,Ġ w,o u,n d,i s,Ġ c,o r,Ġ b,e s,Ġ f,e n,in g,a n,Ġ m,Ġ p,Ġ d,i t",
  "l l,Ġa nd,Ġ o,a r,Ġ h,l e,Ġt o,o m,Ġ n,o w,l o,e d,r o,u s,s t",
].flatMap((line) => line.split(","));

interface Vocabulary {
  readonly tokens: readonly string[];
  readonly tokenTypes: readonly number[];
  readonly merges: readonly string[];
}

interface VocabularyOptions {
  /** Number of tokens. */
  readonly vocab: number;
  /** Texts that are one token each. */
  readonly markers: { readonly texts: readonly string[]; readonly areSpecial: boolean };
}

export function createVocabulary({ vocab: numTokens, markers }: VocabularyOptions): Vocabulary {
  const words = [...byteTokens(), ...MERGES.map((merge) => merge.replace(" ", ""))];
  const numUnused = numTokens - words.length - CONTROL_TOKENS.length - markers.texts.length;
  if (numUnused < 0) throw new RangeError(`expected vocab of at least ${numTokens - numUnused}, got ${numTokens}`);
  const unused = Array.from({ length: numUnused }, (_, index) => `<unused${index}>`);
  return {
    tokens: [...words, ...unused, ...markers.texts, ...CONTROL_TOKENS],
    tokenTypes: [
      ...words.map(() => NORMAL),
      ...unused.map(() => UNUSED),
      ...markers.texts.map(() => (markers.areSpecial ? CONTROL : USER_DEFINED)),
      ...CONTROL_TOKENS.map(() => CONTROL),
    ],
    merges: MERGES,
  };
}

/** GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for the characters from U+0100 on. */
function byteTokens(): readonly string[] {
  const isPrintable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let numShifted = 0;
  return Array.from({ length: 256 }, (_, byte) => {
    if (isPrintable(byte)) return String.fromCharCode(byte);
    numShifted += 1;
    return String.fromCharCode(255 + numShifted);
  });
}

const CHAT_TEMPLATE =
  "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

export function tokenizerMetadata({ tokens, tokenTypes, merges }: Vocabulary): Record<string, WritableValue> {
  const endOfText = tokens.indexOf(END_OF_TEXT);
  return {
    "tokenizer.ggml.model": str("gpt2"),
    "tokenizer.ggml.pre": str("gpt-2"),
    "tokenizer.ggml.tokens": arr("string", tokens),
    "tokenizer.ggml.token_type": arr("i32", tokenTypes),
    "tokenizer.ggml.merges": arr("string", merges),
    "tokenizer.ggml.bos_token_id": u32(endOfText),
    "tokenizer.ggml.eos_token_id": u32(endOfText),
    "tokenizer.ggml.add_bos_token": bool(false),
    "tokenizer.chat_template": str(CHAT_TEMPLATE),
  };
}
