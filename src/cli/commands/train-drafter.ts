/** `millrace train-drafter`: fits a draft model, or heads, to a model's own answers to one's own prompts, and says how often its guesses come true. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import type { MeasuredAcceptance } from "../../distill/acceptance.js";
import type { Corpora } from "../../distill/collection.js";
import type { HeldOutLog } from "../../distill/trainer.js";
import { DEFAULT_SPECULATIVE_CONFIG, type SpeculativeConfig } from "../../engine/api/speculative-config.js";
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { formatTable } from "../format.js";
import { openLocalSession } from "../local-session.js";
import { locateModel, modelOption } from "../model.js";
import { integerIn, oneOf, optionError } from "../option-values.js";
import { type StartStage, stagesTo } from "../stages.js";
import { untilStopped } from "../stop-signal.js";
import {
  addTeachingOptions,
  askOf,
  checkInitFrom,
  collectCorpora,
  inOwnFolder,
  modelHash,
  sessionFlags,
  type TeachingFlags,
  trainInStage,
} from "../teaching.js";

interface DrafterFlags extends TeachingFlags {
  readonly model?: string;
  readonly kind: "draft" | "medusa" | "eagle";
  readonly depth: number;
  readonly width?: number;
}

const DEFAULT_STEPS = 1000;

export function trainDrafterCommand(): Command {
  const command = new Command("train-drafter")
    .description(
      "Train a draft model, or heads, on a model's own answers to your prompts, and report acceptance by position. Goes on where it was stopped.",
    )
    .addOption(modelOption())
    .option(
      "--kind <kind>",
      "draft: a small model; medusa, eagle: heads on the model's hidden states",
      oneOf("--kind", ["draft", "medusa", "eagle"]),
      "draft",
    )
    .option("--depth <n>", "tokens guessed ahead", integerIn("--depth", 1, 16), 4)
    .option(
      "--width <n>",
      "width of an eagle layer; below the model's width it has an output matrix of its own, and beside a small model guesses in less than half the time (default: the model's)",
      integerIn("--width", 1, 65_536),
    );
  return addTeachingOptions(command, DEFAULT_STEPS).action((flags: DrafterFlags) =>
    untilStopped((signal) => runTrainDrafter(flags, stagesTo(process.stderr), signal)),
  );
}

async function runTrainDrafter(flags: DrafterFlags, startStage: StartStage, signal: AbortSignal): Promise<void> {
  const [{ readPrompts, splitPrompts }, { findPython, untrainable }, { readGguf }] = await Promise.all([
    import("../../distill/prompts.js"),
    import("../../distill/trainer.js"),
    import("../../formats/gguf/read.js"),
  ]);
  const isDraft = flags.kind === "draft";
  if (!isDraft && flags.initFrom !== undefined) throw optionError("--init-from", "left out for heads", flags.initFrom);
  const split = splitPrompts(readPrompts(flags.prompts), flags.holdoutShare);
  const { path, name } = await locateModel(flags.model, startStage);
  const model = path.endsWith(".gguf") ? readGguf(path) : undefined;
  const problem = model === undefined ? "files other than GGUF" : untrainable(model, "network");
  if (problem !== undefined) throw optionError("--model", `a model of the mill family, not one with ${problem}`, name);
  if (flags.width !== undefined) checkWidth(flags, flags.width, model!.metadata);
  await checkInitFrom(flags, path);
  const contextLength = model!.metadata.number("llama.context_length")!;
  const python = await findPython();
  // The model's own choice at each place is what a drafter has to guess.
  const greedy = { ...flags, temperature: 0 };
  const contentHash = await modelHash(path, startStage);
  await inOwnFolder(flags, startStage, signal, async () => {
    const { corpora } = await collectCorpora({ name, path, contentHash }, split, greedy, startStage, signal);
    const outPath = join(flags.out, `${flags.kind}.gguf`);
    const kindArgs = isDraft
      ? ["distill", "--preset", "draft"]
      : ["heads", "--kind", flags.kind, "--depth", String(flags.depth)];
    if (flags.width !== undefined) kindArgs.push("--width", String(flags.width));
    // The model itself reads what is trained on.
    const args = [...kindArgs, "--max-length", String(contextLength - (isDraft ? 0 : flags.depth))];
    const base = { flag: isDraft ? "--teacher" : "--base", path, contentHash };
    const trained = await trainInStage({ python, args, model: base, corpora, outPath }, flags, startStage, signal);
    const acceptance = await measureDrafts(flags, { path, contextLength }, outPath, corpora, startStage, signal);
    await writeReport(flags, { name, outPath, corpora, acceptance, trained });
  });
}

/** Columns of a matrix that are quantised together. */
const QUANTIZED_BLOCK = 32;

function checkWidth({ kind, depth }: DrafterFlags, width: number, metadata: GgufMetadata): void {
  if (kind !== "eagle") throw optionError("--width", `left out for kind ${kind}`, String(width));
  const whole = metadata.number("llama.embedding_length")!;
  if (width > whole || width % QUANTIZED_BLOCK !== 0) {
    throw optionError("--width", `a multiple of ${QUANTIZED_BLOCK} up to ${whole}`, String(width));
  }
  if (width < whole && depth < 2) throw optionError("--depth", "at least 2 for a layer narrower than the model", "1");
}

const methodOf = ({ kind }: DrafterFlags) => (kind === "draft" ? "draft_model" : kind);

/** Lets the engine answer the held-out prompts with the drafter and nothing else, always drafting to its depth. */
async function measureDrafts(
  flags: DrafterFlags,
  { path, contextLength }: { readonly path: string; readonly contextLength: number },
  draftModelPath: string,
  { heldOut }: Corpora,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<MeasuredAcceptance> {
  const [{ acceptanceOf }, { runAll }] = await Promise.all([
    import("../../distill/acceptance.js"),
    import("../../distill/answers.js"),
  ]);
  const speculativeConfig: SpeculativeConfig = {
    ...DEFAULT_SPECULATIVE_CONFIG,
    method: methodOf(flags),
    draftModelPath,
    numSpeculativeTokens: flags.depth,
    isAdaptive: false,
  };
  // So many rows of a step are drafts that no sequence has to do with fewer.
  const wholePrompt = flags.enableChunkedPrefill ? 128 : (flags.maxModelLen ?? contextLength);
  const maxNumBatchedTokens = flags.maxNumBatchedTokens ?? wholePrompt + flags.maxNumSeqs * (flags.depth + 1);
  const own = { ...sessionFlags(flags, path), temperature: 0, speculativeConfig, maxNumBatchedTokens };
  const session = await openLocalSession(own, startStage);
  const stage = startStage("acceptance");
  try {
    const ask = askOf(session, flags.seed);
    let numDone = 0;
    await runAll(heldOut, flags.maxNumSeqs, async ({ prompt }) => {
      await ask(prompt.messages, signal);
      stage.update(`${++numDone} of ${heldOut.length}`);
    });
    const acceptance = acceptanceOf(session.engine.stats().speculation, flags.depth);
    stage.done(`${acceptance.tokensPerStep.toFixed(2)} tokens a step over ${acceptance.numDrafts} drafts`);
    return acceptance;
  } finally {
    await session.close();
  }
}

interface Fitted {
  readonly name: string;
  readonly outPath: string;
  readonly corpora: Corpora;
  readonly acceptance: MeasuredAcceptance;
  readonly trained: HeldOutLog;
}

async function writeReport(flags: DrafterFlags, fitted: Fitted): Promise<void> {
  const { machineInfo, versions } = await import("../../bench/results/machine.js");
  const { name, outPath, corpora, acceptance, trained } = fitted;
  const { prompts, kind, depth, width, maxTokens, steps } = flags;
  const report = {
    model: name,
    kind,
    depth,
    ...(width === undefined ? {} : { width }),
    path: outPath,
    prompts,
    maxTokens,
    steps,
    heldOutLoss: trained.losses.all,
    acceptance,
    numTrained: trained.numUsed,
    numHeldOut: corpora.heldOut.length,
    machine: machineInfo(),
    versions: versions(),
  };
  const shown = acceptance.byPosition.map((share) => `${(100 * share).toFixed(1)} %`);
  const table = formatTable([
    ["position", ...shown.map((_, i) => String(i + 1))],
    ["accepted", ...shown],
  ]);
  const how = `Greedy answers to ${corpora.heldOut.length} held-out prompts: ${acceptance.numDrafts} drafts of up to ${depth} tokens, ${acceptance.tokensPerStep.toFixed(2)} tokens per step of the model; a position counts where all before it were accepted.`;
  const use = `To serve with it: --speculative-config '${JSON.stringify({ method: methodOf(flags), model: outPath })}'`;
  writeFileSync(join(flags.out, `${kind}-report.json`), `${JSON.stringify(report, undefined, 1)}\n`);
  const markdown = [
    `# ${kind === "draft" ? "Draft model" : `Heads (${kind}${width === undefined ? "" : ` of width ${width}`})`} for ${name}`,
    "",
    `| position | ${shown.map((_, i) => i + 1).join(" | ")} |`,
    `|---|${shown.map(() => "---|").join("")}`,
    `| accepted | ${shown.join(" | ")} |`,
    "",
    how,
    "",
    use,
  ];
  writeFileSync(join(flags.out, `${kind}-report.md`), `${markdown.join("\n")}\n`);
  process.stdout.write(`${table}\n\n${how}\n${use}\n`);
}
