/** A model's text side: the tokenizer, chat template and sampling defaults from its files. */
import { readText } from "../core/read-text.js";
import type { SamplingDefaults } from "../formats/sampling-defaults.js";
import type { AsyncTokenizer } from "./async-tokenizer.js";
import type { EmbeddingPrompts } from "./hf/embedding-prompts.js";
import type { ChatTemplate, ChatTemplateOptions } from "./template/chat-template.js";
import type { ChatMessage } from "./template/prepare-messages.js";
import type { Tokenizer } from "./tokenizer/tokenizer.js";

export interface TextSide {
  readonly tokenizer: Tokenizer;
  /** The same tokenizer, for texts of any length. */
  readonly asyncTokenizer: AsyncTokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  /** The prompts of an embedding model; undefined: the model has none. */
  readonly embeddingPrompts?: EmbeddingPrompts | undefined;
  /** The sampling defaults in the model's files. Throws if a value is invalid for requests. */
  readonly readSampling: () => SamplingDefaults;
}

export const readTemplateFile = (path: string): string => readText(path, "a chat template");

/** @param templatePath a file that replaces the model's own template */
export async function loadTextSide(modelPath: string, templatePath?: string): Promise<TextSide> {
  const [{ isHfFolder }, { AsyncTokenizer }, { tokenizerSource }] = await Promise.all([
    import("../formats/hf/folder.js"),
    import("./async-tokenizer.js"),
    import("./tokenizer-source.js"),
  ]);
  // The state is recorded before the files are read, so that a file replaced in between is detected.
  const source = tokenizerSource(modelPath);
  const { chatTemplate, ...loaded } = await (isHfFolder(modelPath) ? loadHfText(modelPath) : loadGgufText(modelPath));
  const { tokenizer } = loaded;
  const asyncTokenizer = new AsyncTokenizer(tokenizer, source);
  await tryOut(tokenizer, asyncTokenizer);
  if (templatePath === undefined) return { ...loaded, asyncTokenizer, chatTemplate: chatTemplate() };
  const { ChatTemplate } = await import("./template/chat-template.js");
  const replacing = new ChatTemplate(readTemplateFile(templatePath), endTokensOf(tokenizer));
  return { ...loaded, asyncTokenizer, chatTemplate: replacing };
}

/**
 * Tries the tokenizer on another thread before this thread encodes any text: a file's own expression may take unbounded
 * time.
 */
async function tryOut(tokenizer: Tokenizer, asyncTokenizer: AsyncTokenizer): Promise<void> {
  if (!tokenizer.hasOwnExpressions) return;
  const { TRIAL_TEXTS } = await import("./trial-texts.js");
  try {
    await asyncTokenizer.tryOut(TRIAL_TEXTS);
  } catch (thrown) {
    asyncTokenizer.end();
    throw thrown;
  }
}

function endTokensOf(tokenizer: Tokenizer): Pick<ChatTemplateOptions, "bosToken" | "eosToken"> {
  const textOf = (id: number | undefined): string | undefined =>
    id === undefined ? undefined : Buffer.from(tokenizer.tokenBytes(id)).toString("utf8");
  return { bosToken: textOf(tokenizer.bosId), eosToken: textOf(tokenizer.eosId) };
}

/** The model's own template is read on demand, because a broken one may be the reason for the replacement. */
interface LoadedText extends Pick<TextSide, "tokenizer" | "readSampling" | "embeddingPrompts"> {
  readonly chatTemplate: () => ChatTemplate | undefined;
}

async function loadGgufText(path: string): Promise<LoadedText> {
  const [{ readGguf }, { createTokenizer }, { readChatTemplate }, { readGgufSampling }] = await Promise.all([
    import("../formats/gguf/read.js"),
    import("./tokenizer/create-tokenizer.js"),
    import("./template/chat-template.js"),
    import("../formats/sampling-defaults.js"),
  ]);
  const { metadata } = readGguf(path);
  const tokenizer = createTokenizer(metadata);
  const chatTemplate = (): ChatTemplate | undefined => readChatTemplate(metadata, endTokensOf(tokenizer));
  return { tokenizer, chatTemplate, readSampling: () => readGgufSampling(metadata) };
}

async function loadHfText(path: string): Promise<LoadedText> {
  const [
    { readHfFolder },
    { createHfTokenizer },
    { readHfChatTemplate },
    { readHfSampling },
    { readEmbeddingPrompts },
  ] = await Promise.all([
    import("../formats/hf/folder.js"),
    import("./hf/create-tokenizer.js"),
    import("./hf/chat-template.js"),
    import("../formats/sampling-defaults.js"),
    import("./hf/embedding-prompts.js"),
  ]);
  const { numEmbeddings } = readHfFolder(path);
  const tokenizer = createHfTokenizer(path, numEmbeddings);
  const chatTemplate = (): ChatTemplate | undefined => readHfChatTemplate(path);
  const embeddingPrompts = readEmbeddingPrompts(path);
  return { tokenizer, chatTemplate, embeddingPrompts, readSampling: () => readHfSampling(path) };
}

/** The token ids of a chat up to the beginning of the answer. */
export function chatPromptIds(
  tokenizer: Tokenizer,
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  tools: readonly unknown[] = [],
): number[] {
  const text = template.render({
    messages,
    addGenerationPrompt: true,
    tools: tools.length === 0 ? undefined : tools,
  });
  return tokenizer.encode(text, { addSpecial: false, parseSpecial: true });
}
