/** Finds a model and makes its text side: tokenizer and chat template. The weights are the engine's business. */
import { readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { Option } from "commander";
import { Option as CommanderOption } from "commander";
import { MillraceError } from "../core/errors.js";
import { packageRoot } from "../core/package-root.js";
import type { SamplingDefaults } from "../formats/sampling-defaults.js";
import type { AsyncTokenizer } from "../text/async-tokenizer.js";
import type { ChatTemplate, ChatTemplateOptions } from "../text/template/chat-template.js";
import type { Tokenizer } from "../text/tokenizer/tokenizer.js";
import { formatBytes } from "./format.js";
import type { StartStage } from "./stages.js";

export interface LocatedModel {
  /** The file (of a split one, the first shard), or the folder of a model that is one. */
  readonly path: string;
  /** What the model is called where nobody names it: the file's name, or the hub's repository. */
  readonly name: string;
}

export interface TextSide {
  readonly tokenizer: Tokenizer;
  /** The same tokenizer, for texts of any length. */
  readonly asyncTokenizer: AsyncTokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  /** As the model's files would have it sampled. Throws where they say what no request may. */
  readonly readSampling: () => SamplingDefaults;
}

export function modelOption(): Option {
  return new CommanderOption(
    "--model <path|hf:org/repo[:file]>",
    "GGUF file, folder with one or with safetensors, or a model of the hub (default: the bundled model)",
  );
}

/** The models that come with the program and answer by themselves; the first is served where none is named. */
export const BUNDLED_MODELS = ["mill-base", "mill-student"] as const;
export type BundledModel = (typeof BUNDLED_MODELS)[number];

export function bundledModelPath(name: BundledModel = "mill-base"): string {
  return join(packageRoot(), "models", `${name}.gguf`);
}

/** @example nameOf("/models/qwen-00001-of-00002.gguf") // "qwen" */
export function nameOf(spec: string): string {
  if (spec.startsWith("hf:")) return spec.slice("hf:".length).split(":")[0]!;
  return basename(resolve(spec)).replace(/(-\d{5}-of-\d{5})?\.gguf$/, "");
}

/**
 * @param spec a path or hf:org/repo[:file]; undefined = the bundled model
 * @param isWholeRepository for an engine that reads the hub's repository itself
 */
export async function locateModel(
  spec: string | undefined,
  startStage: StartStage,
  isWholeRepository = false,
): Promise<LocatedModel> {
  const { resolveModelPath } = await import("../formats/hub.js");
  const stage = startStage("model");
  const wanted = spec ?? bundledModelPath();
  const { path, files } = await resolveModelPath(wanted, {
    onProgress: ({ file, receivedBytes, totalBytes }) => {
      stage.update(`${file}: ${formatBytes(receivedBytes)} of ${formatBytes(totalBytes)}`);
    },
    isWholeRepository,
    onWait: () => stage.note("another process is downloading it; waiting"),
  });
  stage.done(files.length > 1 ? `${path} and ${files.length - 1} more` : path);
  return { path, name: nameOf(wanted) };
}

export function readTemplateFile(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected a chat template in ${path}, got ${String(cause)}`, { cause });
  }
}

/** @param templatePath a file that replaces the model's own template */
export async function loadTextSide(modelPath: string, templatePath?: string): Promise<TextSide> {
  const [{ isHfFolder }, { AsyncTokenizer }, { tokenizerSource }] = await Promise.all([
    import("../formats/hf/folder.js"),
    import("../text/async-tokenizer.js"),
    import("../text/tokenizer-source.js"),
  ]);
  // Before the files are read: others that take their place meanwhile are seen as others.
  const source = tokenizerSource(modelPath);
  const { tokenizer, chatTemplate, readSampling } = await (isHfFolder(modelPath)
    ? loadHfText(modelPath)
    : loadGgufText(modelPath));
  const asyncTokenizer = new AsyncTokenizer(tokenizer, source);
  if (templatePath === undefined) return { tokenizer, asyncTokenizer, chatTemplate: chatTemplate(), readSampling };
  const { ChatTemplate } = await import("../text/template/chat-template.js");
  const replacing = new ChatTemplate(readTemplateFile(templatePath), endTokensOf(tokenizer));
  return { tokenizer, asyncTokenizer, chatTemplate: replacing, readSampling };
}

function endTokensOf(tokenizer: Tokenizer): Pick<ChatTemplateOptions, "bosToken" | "eosToken"> {
  const textOf = (id: number | undefined): string | undefined =>
    id === undefined ? undefined : Buffer.from(tokenizer.tokenBytes(id)).toString("utf8");
  return { bosToken: textOf(tokenizer.bosId), eosToken: textOf(tokenizer.eosId) };
}

/** The template is not read where another replaces it: it may be the reason why. */
interface LoadedText extends Pick<TextSide, "tokenizer" | "readSampling"> {
  readonly chatTemplate: () => ChatTemplate | undefined;
}

async function loadGgufText(path: string): Promise<LoadedText> {
  const [{ readGguf }, { createTokenizer }, { readChatTemplate }, { readGgufSampling }] = await Promise.all([
    import("../formats/gguf/read.js"),
    import("../text/tokenizer/create-tokenizer.js"),
    import("../text/template/chat-template.js"),
    import("../formats/sampling-defaults.js"),
  ]);
  const { metadata } = readGguf(path);
  const tokenizer = createTokenizer(metadata);
  const chatTemplate = (): ChatTemplate | undefined => readChatTemplate(metadata, endTokensOf(tokenizer));
  return { tokenizer, chatTemplate, readSampling: () => readGgufSampling(metadata) };
}

async function loadHfText(path: string): Promise<LoadedText> {
  const [{ readHfFolder }, { createHfTokenizer }, { readHfChatTemplate }, { readHfSampling }] = await Promise.all([
    import("../formats/hf/folder.js"),
    import("../text/hf/create-tokenizer.js"),
    import("../text/hf/chat-template.js"),
    import("../formats/sampling-defaults.js"),
  ]);
  const { numEmbeddings } = readHfFolder(path);
  const tokenizer = createHfTokenizer(path, numEmbeddings);
  const chatTemplate = (): ChatTemplate | undefined => readHfChatTemplate(path);
  return { tokenizer, chatTemplate, readSampling: () => readHfSampling(path) };
}
