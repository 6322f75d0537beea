/**
 * `--kv-cache-dtype measured`: the smallest type of keys and values that hardly changes the model's predictions. The
 * first start measures and stores the choice in the cache; later ones, and other instances on the machine, read it.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { dirname, join, resolve } from "node:path";
import { cacheFolder } from "../core/cache-folder.js";
import { acquireFileLock } from "../core/file-lock.js";
import { packageRoot, packageVersion } from "../core/package-root.js";
import type { Stage, StartStage } from "../core/stages.js";
import type { EngineOptions } from "../engine/api/options.js";
import { KV_CANDIDATES, type KvTypeLoss, kvTypeLosses } from "../engine/kv-type-losses.js";
import type { ChatMessage } from "../text/template/prepare-messages.js";
import { loadTextSide, type TextSide } from "../text/text-side.js";

type KvType = EngineOptions["kvCacheDtype"];

/** Largest loss of a KV type that hardly changes answers (measured: docs/background/benchmarks/kv-memory.md). */
const MAX_CHANGED_SHARE = 0.01;
const MAX_MEAN_KL = 0.002;

/** Chats, one per line, half of them questions about long texts; models/corpus generates them. */
const TEXT_FILE = "assets/kv-chats.jsonl";

/** @param files the model's weight files */
export async function measuredKvType(
  options: EngineOptions,
  files: readonly string[],
  startStage: StartStage,
): Promise<KvType> {
  const stage = startStage("KV type");
  const textSide = await loadTextSide(options.modelPath);
  textSide.asyncTokenizer.end();
  const ids = textIds(textSide);
  const file = join(cacheFolder(), "kv-types", `${keyOf(options, files, ids)}.json`);
  const known = readKept(file);
  if (known !== undefined) return choose(known, "measured before", stage);
  const measure = async (): Promise<readonly KvTypeLoss[]> => {
    const losses = await kvTypeLosses(options, ids, (kvType) => stage.update(`predictions with ${kvType}`));
    show(losses, stage);
    return losses;
  };
  let release: () => void;
  try {
    release = await acquireFileLock(`${file}.lock`, () => stage.update("another process measures them"));
  } catch (cause) {
    stage.note(`the choice cannot be kept, so each start measures: ${(cause as Error).message}`);
    return choose(await measure(), "measured now", stage);
  }
  try {
    const ofAnother = readKept(file);
    if (ofAnother !== undefined) return choose(ofAnother, "measured by another process", stage);
    const losses = await measure();
    try {
      keep(file, losses);
    } catch (cause) {
      stage.note(`the choice cannot be kept, so each start measures: ${(cause as Error).message}`);
    }
    return choose(losses, "measured now", stage);
  } finally {
    release();
  }
}

/**
 * The smallest type within the bounds, which at least f16 is, since it loses nothing. @param losses smallest type first
 */
export const smallestWithin = (losses: readonly KvTypeLoss[]): KvTypeLoss => losses.find(isWithin)!;

const isWithin = ({ changedShare, meanKl }: KvTypeLoss): boolean =>
  changedShare <= MAX_CHANGED_SHARE && meanKl <= MAX_MEAN_KL;

function choose(losses: readonly KvTypeLoss[], when: string, stage: Stage): KvType {
  const chosen = smallestWithin(losses);
  const bounds = `${100 * MAX_CHANGED_SHARE} % of likeliest tokens changed and ${MAX_MEAN_KL} nats`;
  stage.done(`${chosen.kvType}, the smallest within ${bounds}: ${lossText(chosen)}, ${when}`);
  return chosen.kvType;
}

/** One row per type. */
function show(losses: readonly KvTypeLoss[], stage: Stage): void {
  for (const loss of losses) {
    const bytes = `${String(loss.bytesPerToken).padStart(8)} bytes per token`;
    stage.note(`${loss.kvType.padEnd(8)} ${bytes}, ${lossText(loss)}${isWithin(loss) ? "" : ": too much"}`);
  }
}

const lossText = ({ changedShare, meanKl }: KvTypeLoss): string =>
  `${(100 * changedShare).toFixed(2)} % changed, ${meanKl.toFixed(6)} nats`;

function textIds({ tokenizer, chatTemplate }: TextSide): readonly number[] {
  const lines = readFileSync(join(packageRoot(), TEXT_FILE), "utf8").trimEnd().split("\n");
  return lines.flatMap((line) => {
    const { messages } = JSON.parse(line) as { readonly messages: readonly ChatMessage[] };
    const isChat = chatTemplate !== undefined;
    const text = isChat
      ? chatTemplate.render({ messages, addGenerationPrompt: false, tools: undefined })
      : messages.map(({ content }) => content).join("\n\n");
    return tokenizer.encode(text, { addSpecial: false, parseSpecial: isChat });
  });
}

/** A hash of everything that affects the losses. */
function keyOf(
  { maxModelLen, activationDtype }: EngineOptions,
  files: readonly string[],
  ids: readonly number[],
): string {
  const weights = files.map((file) => {
    const { size, mtimeMs } = statSync(file);
    return [resolve(file), size, mtimeMs];
  });
  const facts = [weights, ids, maxModelLen, activationDtype, cpus()[0]?.model, packageVersion()];
  return createHash("sha256").update(JSON.stringify(facts)).digest("hex").slice(0, 32);
}

/** @returns undefined if the file is missing or damaged, so that the types are measured again */
function readKept(file: string): readonly KvTypeLoss[] | undefined {
  try {
    const kept: unknown = JSON.parse(readFileSync(file, "utf8"));
    const isLoss = (each: Partial<KvTypeLoss> | null): boolean =>
      KV_CANDIDATES.some((kvType) => kvType === each?.kvType) &&
      [each?.bytesPerToken, each?.meanKl, each?.changedShare].every(Number.isFinite);
    return Array.isArray(kept) && kept.every(isLoss) && kept.some(isWithin) ? kept : undefined;
  } catch {
    return undefined;
  }
}

function keep(file: string, losses: readonly KvTypeLoss[]): void {
  mkdirSync(dirname(file), { recursive: true });
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, JSON.stringify(losses));
  renameSync(draft, file);
}
