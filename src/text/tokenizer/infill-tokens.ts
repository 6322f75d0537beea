/**
 * The tokens of models trained to fill in text: before the prefix, before the suffix, and before the filled-in text.
 * Models trained on whole repositories have two more: before a repository's name, and before a file's name.
 */
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { readTokenId, TOKEN_TYPE, type Vocabulary } from "./vocabulary.js";

export interface InfillTokens {
  readonly prefix: number;
  readonly suffix: number;
  readonly middle: number;
  readonly repository?: number;
  readonly file?: number;
}

/** The spellings of Qwen and CodeGemma, StarCoder, Granite, CodeLlama and DeepSeek. */
const TEXTS: readonly (readonly [prefix: string, suffix: string, middle: string])[] = [
  ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
  ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
  ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
  ["\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"],
  ["<PRE>", "<SUF>", "<MID>"],
  ["<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"],
];

/** The spellings of Qwen, StarCoder 2 and Granite. */
const REPOSITORY_TEXTS = ["<|repo_name|>", "<repo_name>", "<reponame>"];
const FILE_TEXTS = ["<|file_sep|>", "<file_sep>", "<filename>"];

function withRepository(tokens: InfillTokens, repository: number | undefined, file: number | undefined): InfillTokens {
  return {
    ...tokens,
    ...(repository === undefined ? {} : { repository }),
    ...(file === undefined ? {} : { file }),
  };
}

function complete(prefix?: number, suffix?: number, middle?: number): InfillTokens | undefined {
  if (prefix === undefined || suffix === undefined || middle === undefined) return undefined;
  return { prefix, suffix, middle };
}

export function infillTokensByText({
  idByText,
  types,
}: Pick<Vocabulary, "idByText" | "types">): InfillTokens | undefined {
  // Plain-text tokens with these spellings do not show that the model was trained to fill in.
  const idOf = (text: string): number | undefined => {
    const id = idByText.get(text);
    return id === undefined || types[id] === TOKEN_TYPE.normal ? undefined : id;
  };
  const firstOf = (texts: readonly string[]) => texts.map(idOf).find((id) => id !== undefined);
  for (const [prefix, suffix, middle] of TEXTS) {
    const tokens = complete(idOf(prefix), idOf(suffix), idOf(middle));
    if (tokens !== undefined) return withRepository(tokens, firstOf(REPOSITORY_TEXTS), firstOf(FILE_TEXTS));
  }
  return undefined;
}

export function findInfillTokens(metadata: GgufMetadata, vocab: Vocabulary): InfillTokens | undefined {
  const idOf = (name: string): number | undefined => readTokenId(metadata, `tokenizer.ggml.${name}_token_id`, vocab);
  const byText = infillTokensByText(vocab);
  const named =
    complete(idOf("fim_pre"), idOf("fim_suf"), idOf("fim_mid")) ??
    // Older files use these names.
    complete(idOf("prefix"), idOf("suffix"), idOf("middle"));
  if (named === undefined) return byText;
  return withRepository(named, idOf("fim_rep") ?? byText?.repository, idOf("fim_sep") ?? byText?.file);
}
