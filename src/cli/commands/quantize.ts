/** `millrace quantize`: writes a model as a smaller GGUF file, and reports the loss. */
import { resolve } from "node:path";
import { Command } from "commander";
import type { Candidate } from "../../compress/card.js";
import type { Layout } from "../../compress/folder-formats.js";
import type { Importance } from "../../compress/importance.js";
import type { chooseTypes } from "../../compress/mixed.js";
import type { Method } from "../../compress/storage.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { optionError } from "../../core/option-error.js";
import { formatBytes } from "../../core/quantities.js";
import { type StartStage, silentStages } from "../../core/stages.js";
import { locateModel } from "../../formats/locate-model.js";
import type { EvalSettings } from "../../lab/eval-target.js";
import { powerText } from "../../quality/compare.js";
import { questionsFrom } from "../flags/own-questions.js";
import {
  type AskedMethods,
  addQuantizeOptions,
  askedMethods,
  assertTogether,
  type QuantizeFlags,
} from "../flags/quantize-options.js";
import { comparisonText } from "../output/eval-text.js";
import { formatTable, jsonText } from "../output/format.js";
import { quantisedText } from "../output/quantize-text.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";

export function quantizeCommand(): Command {
  return addQuantizeOptions(
    new Command("quantize").description(
      "Write a model as a smaller GGUF file, or as a folder for vLLM and others. With your texts, the weights that matter to them keep more, and the loss is measured; with your questions, a file that answers worse is not kept.",
    ),
  ).action((flags: QuantizeFlags, command: Command) => untilStopped((signal) => runQuantize(flags, command, signal)));
}

async function runQuantize(flags: QuantizeFlags, command: Command, signal: AbortSignal): Promise<void> {
  const [{ METHODS }, { assertFree, MIXED, quantise }, { journaled, outputsOf }, { identityOf }, { keptImportance }] =
    await Promise.all([
      import("../../compress/storage.js"),
      import("../../compress/quantise.js"),
      import("../../compress/journal.js"),
      import("../../compress/identity.js"),
      import("../../compress/importance.js"),
    ]);
  const { maxSize, layout, json, imatrix, rounding, scaling, calibrate, saveImatrix } = flags;
  const out = flags.out.replace(/(?<=.)\/+$/, "");
  const asked = askedMethods(flags, out, METHODS);
  const wanted = maxSize === undefined ? asked.methods : ([MIXED] as const);
  assertTogether(flags, wanted, command);
  assertFree({ out, methods: wanted }, saveImatrix === undefined ? [] : [saveImatrix], outputsOf(out));
  const startStage = json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const { path, name } = await locateModel(flags.model, startStage);
  if (maxSize !== undefined) (await import("../../compress/mixed.js")).assertRoomForMatrices(path, maxSize);
  const methods = asked.isAuto ? await methodsFrom(asked, path, layout, startStage) : wanted;
  const numThreads = flags.threads ?? defaultNumThreads();
  const gate = flags.evals === undefined ? undefined : await gateFrom(flags, numThreads);
  const { texts, heldOut } = await textsFrom(flags, path);
  const given = imatrix === undefined ? undefined : await importanceFrom(imatrix, path);
  const identity = identityOf(
    path,
    { "--model": name, ...optionsOf(command) },
    {
      "--calibrate": calibrate,
      "--imatrix": imatrix,
      "--evals": flags.evals,
    },
  );
  const quantised = await journaled(resolve(out), identity, async (journal) => {
    if (journal.isResumed) startStage("resume").done(`goes on with ${journal.folder}`);
    const calibration = { model: path, texts, source: calibrate ?? "", saveTo: saveImatrix, numThreads, journal };
    const importance =
      given ?? (calibrate === undefined ? undefined : await keptImportance(calibration, startStage, signal));
    const { folder, recall } = journal;
    const sizes = { model: path, folder, maxBytes: maxSize ?? 0, importance, heldOut, numThreads, recall };
    const types = maxSize === undefined ? undefined : await typesFor(sizes, startStage, signal);
    const about = await factsFor(flags, name, texts);
    const settings = {
      model: path,
      out,
      methods,
      ...(types && { types }),
      layout,
      about,
      importance,
      texts,
      rounding: calibrate === undefined ? ("nearest" as const) : (rounding ?? "gptq"),
      scaling,
      numThreads,
      heldOut,
      gate,
      journal,
    };
    const tell = (candidate: Candidate): void => {
      if (candidate.quality !== undefined && !json) process.stderr.write(`${comparisonText(candidate.quality)}\n`);
    };
    return await quantise(settings, startStage, tell, signal);
  });
  if (quantised.chosen === undefined) process.exitCode = 1;
  process.stdout.write(json ? `${jsonText({ model: name, ...quantised })}\n` : `${quantisedText(quantised)}\n`);
}

/** The methods of `auto`, smallest first. */
async function methodsFrom(
  { smallest, methods: known }: AskedMethods,
  path: string,
  layout: Layout,
  startStage: StartStage,
): Promise<readonly Method[]> {
  const [{ bySize }, { openModel }] = await Promise.all([
    import("../../compress/by-size.js"),
    import("../../model/open-model.js"),
  ]);
  const all = bySize(openModel(path), known, layout);
  const methods = smallest === undefined ? all : all.slice(all.indexOf(smallest));
  if (methods.length === 0 || (smallest !== undefined && !all.includes(smallest)))
    throw optionError(
      "--method",
      `of types that make this model smaller (${all.join(", ") || "there is none"})`,
      `auto${smallest === undefined ? "" : `:${smallest}`}`,
    );
  startStage("methods").done(methods.join(", "));
  return methods;
}

/** Each text as token ids. */
type Texts = readonly (readonly number[])[];

/** Chooses a type for each group of matrices, and prints the choices as a table. */
async function typesFor(settings: Parameters<typeof chooseTypes>[0], startStage: StartStage, signal: AbortSignal) {
  const [mixed, { createRowEncoder }] = await Promise.all([
    import("../../compress/mixed.js"),
    import("../../backend/create/create-backend.js"),
  ]);
  const encoder = createRowEncoder(settings.numThreads);
  try {
    const choices = await mixed.chooseTypes(settings, encoder, startStage, signal);
    const rows = choices.map(({ group, type, probeKl, numBytes }) => [
      group,
      type,
      formatBytes(numBytes),
      probeKl.toFixed(5),
    ]);
    process.stderr.write(`${formatTable([["matrices", "type", "size", "KL of the probe"], ...rows])}\n`);
    return new Map(choices.map(({ group, type }) => [group, type]));
  } finally {
    encoder.close();
  }
}

async function gateFrom({ evals, count, maxDrop, maxTokens }: QuantizeFlags, numThreads: number) {
  const [tasks, { DEFAULT_ENGINE_OPTIONS }] = await Promise.all([
    questionsFrom(evals!, count),
    import("../../engine/api/options.js"),
  ]);
  const numItems = tasks.reduce((sum, { chats }) => sum + chats.length, 0);
  process.stderr.write(`${powerText(numItems, maxDrop / 100)}\n`);
  const engine = { ...DEFAULT_ENGINE_OPTIONS, numThreads };
  const evaluation: EvalSettings = { temperature: 0, maxTokens, seed: 0, concurrency: 1, engine };
  return { tasks, maxDrop: maxDrop / 100, evaluation };
}

/** The options that affect the file's bytes or the report's figures. */
function optionsOf(command: Command): Readonly<Record<string, unknown>> {
  const counted = command.options.filter(({ long }) => !["--model", "--out", "--threads", "--json"].includes(long!));
  return Object.fromEntries(counted.map((each) => [each.long, command.getOptionValue(each.attributeName())]));
}

async function textsFrom({ calibrate, calibrationTokens: maxTokens }: QuantizeFlags, path: string) {
  if (calibrate === undefined) return { texts: [], heldOut: [] };
  const [{ readCalibration }, { loadTextSide }, { openModel }] = await Promise.all([
    import("../../compress/calibration.js"),
    import("../../text/text-side.js"),
    import("../../model/open-model.js"),
  ]);
  const { tokenizer, chatTemplate, asyncTokenizer } = await loadTextSide(path);
  asyncTokenizer.end();
  const { contextLength } = openModel(path).config;
  const { windows, heldOut } = readCalibration(calibrate, tokenizer, chatTemplate, { contextLength, maxTokens });
  return { texts: windows, heldOut };
}

/** Facts for the model card. */
async function factsFor({ calibrate, imatrix, evals }: QuantizeFlags, model: string, texts: Texts) {
  const { dataFile } = await import("../../compress/card.js");
  const used = calibrate ?? imatrix;
  const numTokens = calibrate === undefined ? undefined : texts.reduce((sum, { length }) => sum + length, 0);
  return {
    model,
    calibration: used === undefined ? undefined : { ...dataFile(used), numTokens },
    evals: evals === undefined ? undefined : dataFile(evals),
  };
}

/** @throws invalid_option if the file has no matrix of the model */
async function importanceFrom(imatrix: string, path: string): Promise<Importance> {
  const [{ readImportance }, { openModel }] = await Promise.all([
    import("../../compress/importance.js"),
    import("../../model/open-model.js"),
  ]);
  const importance = readImportance(imatrix);
  const source = openModel(path).tensors();
  const names = [...importance.means.keys()];
  if (names.some((name) => source.has(`${name}.weight`))) return importance;
  throw optionError("--imatrix", "an importance matrix of this model", `one with ${names[0] ?? "nothing"}`);
}
