/** `millrace inspect`: a model file's contents and the cost of serving it, from the header alone. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { KV_TYPES, type KvType } from "../../backend/ops.js";
import { defaultBatchedTokens } from "../../core/batched-tokens.js";
import { type ErrorRecord, errorToRecord, MillraceError, toMillraceError } from "../../core/errors.js";
import { formatBytes, formatCount } from "../../core/quantities.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import type { HfFolder } from "../../formats/hf/folder.js";
import { locateModel } from "../../formats/locate-model.js";
import type { ExpertsFeedForward } from "../../model/description/model-description.js";
import type { Pooling } from "../../model/description/pooling.js";
import type { Task } from "../../model/description/servable.js";
import type { LayerSummary } from "../../model/description/sizes.js";
import { MOST_OTHER_STATES } from "../../model/description/state-memory.js";
import { memoryBytesOf, type StoredTensor } from "../../model/description/weight-summary.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { downloadStages } from "../output/stages.js";

interface InspectFlags {
  readonly model?: string;
  readonly context?: number;
  readonly concurrency: number;
  readonly json?: boolean;
}

interface TypeShare {
  readonly type: string;
  readonly numTensors: number;
  readonly numParameters: number;
  readonly numBytes: number;
}

interface KvReport {
  readonly kvType: KvType;
  readonly bytesPerToken: number;
  /** Total for `concurrency` sequences of `context` tokens. */
  readonly kvBytes: number;
  readonly totalBytes: number;
}

interface ModelReport extends LayerSummary {
  /** The experts of the layers that have them. */
  readonly experts?: ExpertsFeedForward;
  readonly tasks: readonly Task[];
  readonly pooling?: Pooling;
  readonly contextLength: number;
  readonly width: number;
  readonly vocabSize: number;
  readonly context: number;
  readonly concurrency: number;
  /** Bytes per sequence of any length; absent: no layer has a state. */
  readonly stateBytesEach?: number;
  readonly numRecurrentLayers?: number;
  readonly memory: readonly KvReport[];
}

interface InspectReport {
  readonly path: string;
  readonly name: string | undefined;
  readonly license: string | undefined;
  readonly architecture: string | undefined;
  readonly fileBytes: number;
  readonly numShards: number;
  readonly numTensors: number;
  readonly numParameters: number;
  readonly weightBytes: number;
  readonly bitsPerWeight: number;
  readonly types: readonly TypeShare[];
  readonly tokenizer: {
    readonly model: string | undefined;
    readonly pre: string | undefined;
    readonly numTokens: number;
    readonly hasChatTemplate: boolean;
  };
  /** Absent if the embedded engine cannot serve the file; `unsupported` says why. */
  readonly model?: ModelReport;
  readonly unsupported?: ErrorRecord;
}

export function inspectCommand(): Command {
  return new Command("inspect")
    .usage("[model] [options]")
    .description("Show a model's architecture, quantisation, sizes and memory needs.")
    .addOption(modelOption())
    .option("--context <n>", "tokens per sequence (default: the model's own)", integerIn("--context", 1, 2 ** 31))
    .option("--concurrency <n>", "sequences at once", integerIn("--concurrency", 1, 2 ** 20), 1)
    .option("--json", "as JSON")
    .action(runInspect);
}

async function runInspect(flags: InspectFlags): Promise<void> {
  const { path } = await locateModel(flags.model, downloadStages(flags.model));
  const report = await describe(path, await factsOf(path), flags);
  process.stdout.write(`${flags.json ? jsonText(report, 2) : textOf(report)}\n`);
}

const TOKENIZER_FILE = "tokenizer.json";

/** Facts from the headers of either format. */
interface ModelFacts extends Pick<InspectReport, "name" | "license" | "architecture" | "tokenizer"> {
  readonly shards: readonly { readonly byteLength: number }[];
  readonly tensors: readonly StoredTensor[];
  readonly numTensors: number;
}

async function factsOf(path: string): Promise<ModelFacts> {
  const { isHfFolder, readHfFolder } = await import("../../formats/hf/folder.js");
  if (isHfFolder(path)) return hfFacts(readHfFolder(path));
  const { readGguf } = await import("../../formats/gguf/read.js");
  return ggufFacts(readGguf(path));
}

async function ggufFacts(gguf: GgufFile): Promise<ModelFacts> {
  const { storedGgufTensors } = await import("../../model/gguf/summary.js");
  const { metadata, shards, tensors } = gguf;
  return {
    name: metadata.string("general.name"),
    license: metadata.string("general.license"),
    architecture: metadata.string("general.architecture"),
    shards,
    tensors: storedGgufTensors(gguf),
    numTensors: tensors.size,
    tokenizer: {
      model: metadata.string("tokenizer.ggml.model"),
      pre: metadata.string("tokenizer.ggml.pre"),
      numTokens: metadata.strings("tokenizer.ggml.tokens")?.length ?? 0,
      hasChatTemplate: metadata.has("tokenizer.chat_template"),
    },
  };
}

async function hfFacts(folder: HfFolder): Promise<ModelFacts> {
  const { readHfChatTemplate } = await import("../../text/hf/chat-template.js");
  const { storedHfTensors } = await import("../../model/hf/summary.js");
  const { path, name, config, files, numEmbeddings } = folder;
  return {
    name,
    license: undefined,
    architecture: config.string("model_type"),
    shards: files.shards,
    tensors: storedHfTensors(folder),
    numTensors: files.tensors.size,
    tokenizer: {
      model: existsSync(join(path, TOKENIZER_FILE)) ? TOKENIZER_FILE : undefined,
      pre: undefined,
      numTokens: numEmbeddings,
      hasChatTemplate: readHfChatTemplate(path) !== undefined,
    },
  };
}

function typeShares(tensors: Iterable<StoredTensor>): TypeShare[] {
  const shares = new Map<string, TypeShare>();
  for (const { type, numParameters, byteLength } of tensors) {
    const share = shares.get(type) ?? { type, numTensors: 0, numParameters: 0, numBytes: 0 };
    shares.set(type, {
      type,
      numTensors: share.numTensors + 1,
      numParameters: share.numParameters + numParameters,
      numBytes: share.numBytes + byteLength,
    });
  }
  return [...shares.values()].sort((a, b) => b.numBytes - a.numBytes);
}

async function describe(path: string, facts: ModelFacts, flags: InspectFlags): Promise<InspectReport> {
  const { name, license, architecture, shards, numTensors, tokenizer } = facts;
  const types = typeShares(facts.tensors);
  const numParameters = types.reduce((sum, share) => sum + share.numParameters, 0);
  const weightBytes = types.reduce((sum, share) => sum + share.numBytes, 0);
  return {
    path,
    name,
    license,
    architecture,
    fileBytes: shards.reduce((sum, shard) => sum + shard.byteLength, 0),
    numShards: shards.length,
    numTensors,
    numParameters,
    weightBytes,
    bitsPerWeight: numParameters === 0 ? 0 : Number(((weightBytes * 8) / numParameters).toFixed(3)),
    types,
    tokenizer,
    ...(await describeModel(
      path,
      facts.tensors.reduce((sum, tensor) => sum + memoryBytesOf(tensor), 0),
      flags,
    )),
  };
}

async function describeModel(
  path: string,
  memoryBytes: number,
  { context, concurrency }: InspectFlags,
): Promise<{ model: ModelReport } | { unsupported: ErrorRecord }> {
  const { openModel } = await import("../../model/open-model.js");
  const { keyWidth, kvBytesPerToken, stateBytes, summarizeLayers } = await import("../../model/description/sizes.js");
  const { tasksOf } = await import("../../model/description/servable.js");
  const { encoderKvBudget, groupEntryBytes, kvGroups, planKvBudget } = await import("../../engine/memory/groups.js");
  const { DEFAULT_ENGINE_OPTIONS } = await import("../../engine/api/options.js");
  const { kvEntryBytes } = await import("../../backend/program.js");
  try {
    const { config } = openModel(path);
    const { contextLength, width, vocabSize } = config;
    const layers = summarizeLayers(config);
    if (context !== undefined && context > contextLength) {
      throw new MillraceError("invalid_option", `expected --context of at most ${contextLength}, got ${context}`, {
        hint: "the model was trained for no more",
      });
    }
    const numTokens = context ?? contextLength;
    const { blockSize } = DEFAULT_ENGINE_OPTIONS;
    const maxNumBatchedTokens = defaultBatchedTokens(concurrency);
    const groups = kvGroups(config, numTokens);
    const demand = { maxNumSeqs: concurrency, maxModelLen: numTokens, maxNumBatchedTokens };
    // An encoder stores the keys and values of one step and one layer, unrounded.
    const kvTypes = config.isCausal ? KV_TYPES : (["f32"] as const);
    const stepTokens = { ...demand, maxNumBatchedTokens: Math.max(maxNumBatchedTokens, numTokens) };
    const numAttending = config.layers.filter((layer) => keyWidth(layer) > 0).length;
    const stateBytesEach = stateBytes(config);
    const memory = kvTypes.map((kvType): KvReport => {
      const ofAllLayers = kvBytesPerToken(config, kvType);
      const bytesPerToken = config.isCausal ? ofAllLayers : ofAllLayers / layers.numLayers;
      const entryBytes = groupEntryBytes(config, groups, (size) => kvEntryBytes(kvType, size));
      const { kvBytes } = config.isCausal
        ? planKvBudget(groups, entryBytes, blockSize, demand, Number.POSITIVE_INFINITY, undefined)
        : encoderKvBudget(bytesPerToken, blockSize, stepTokens);
      return { kvType, bytesPerToken, kvBytes, totalBytes: memoryBytes + kvBytes + concurrency * stateBytesEach };
    });
    const parts = config.layers.map(({ feedForward }) => feedForward);
    const experts = parts.find(({ kind }) => kind === "experts") as ExpertsFeedForward | undefined;
    const purpose = { tasks: tasksOf(config), ...(config.pooling === undefined ? {} : { pooling: config.pooling }) };
    const sizes = {
      ...purpose,
      contextLength,
      width,
      vocabSize,
      ...layers,
      ...(experts === undefined ? {} : { experts }),
      ...(stateBytesEach === 0 ? {} : { stateBytesEach, numRecurrentLayers: layers.numLayers - numAttending }),
    };
    return { model: { ...sizes, context: numTokens, concurrency, memory } };
  } catch (thrown) {
    const error = toMillraceError(thrown);
    if (error.code === "invalid_option" || error.code === "internal_error") throw error;
    return { unsupported: errorToRecord(error) };
  }
}

function modelRows(model: ModelReport): string[][] {
  const window =
    model.window === 0
      ? []
      : [["window", `${model.window} tokens in ${model.numWindowLayers} of ${model.numLayers} layers`]];
  const { stateBytesEach, numRecurrentLayers, numLayers } = model;
  const states =
    stateBytesEach === undefined
      ? []
      : [
          ["states", `${formatBytes(stateBytesEach)} per sequence, of ${numRecurrentLayers} of ${numLayers} layers`],
          ["", `up to ${MOST_OTHER_STATES} more for cached prefixes and drafts, in memory that is left`],
        ];
  const { experts, ffWidth } = model;
  const mixture =
    experts === undefined ? [] : [`${experts.count} experts of ${experts.width}, ${experts.active} active`];
  const parts = [...(ffWidth === 0 ? [] : [`feed-forward ${ffWidth}`]), ...mixture];
  const pooling = model.pooling === undefined ? "" : `, pooled by ${model.pooling}`;
  return [
    ["tasks", `${model.tasks.join(", ")}${pooling}`],
    ["layers", [model.numLayers, `width ${model.width}`, ...parts].join(", ")],
    ["heads", `${model.numHeads} query, ${model.numKvHeads} key/value, ${model.headDim} wide`],
    ["vocabulary", String(model.vocabSize)],
    ["context", `${model.contextLength} tokens`],
    ...window,
    ...states,
    ...model.memory.map(({ kvType, bytesPerToken }) => [`KV ${kvType}`, `${formatBytes(bytesPerToken)} per token`]),
    ...model.memory.map(({ kvType, kvBytes, totalBytes }) => [
      `memory ${kvType}`,
      `${formatBytes(totalBytes)}: weights${stateBytesEach === undefined ? "" : ", states"} and ${formatBytes(kvBytes)} KV for ${model.concurrency} × ${model.context} tokens`,
    ]),
  ];
}

function textOf(report: InspectReport): string {
  const { tokenizer, model, unsupported } = report;
  const shards = report.numShards > 1 ? ` in ${report.numShards} files` : "";
  const pre = tokenizer.pre === undefined ? "" : ` (${tokenizer.pre})`;
  const template = tokenizer.hasChatTemplate ? "with a chat template" : "no chat template";
  const rows: string[][] = [
    ["file", report.path],
    ["name", report.name ?? "(none)"],
    ["architecture", report.architecture ?? "(none)"],
    ["size", `${formatBytes(report.fileBytes)}${shards}`],
    ["parameters", `${formatCount(report.numParameters)} in ${report.numTensors} tensors`],
    ["weights", `${formatBytes(report.weightBytes)}, ${report.bitsPerWeight} bits each`],
    ...report.types.map((share) => [
      `  ${share.type}`,
      `${formatBytes(share.numBytes)}, ${formatCount(share.numParameters)} in ${share.numTensors} tensors`,
    ]),
    ["tokenizer", tokenizer.model ? `${tokenizer.model}${pre}, ${tokenizer.numTokens} tokens, ${template}` : "none"],
  ];
  if (model !== undefined) rows.push(...modelRows(model));
  if (unsupported !== undefined) rows.push(["not served", `[${unsupported.code}] ${unsupported.message}`]);
  if (unsupported?.hint !== undefined) rows.push(["", `hint: ${unsupported.hint}`]);
  return formatTable(rows);
}
