/**
 * `millrace bench peers` (`npm run bench:peers`): runs this engine and others in turn on the same files, and compares
 * their medians.
 */

import { writeFileSync } from "node:fs";
import { Command, Option } from "commander";
import type { Contender, PeerModel } from "../../bench/peers/contenders.js";
import type { PeerJob, PeerRun } from "../../bench/peers/run.js";
import type { Shape } from "../../bench/peers/shapes.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { MillraceError } from "../../core/errors.js";
import { nameOf } from "../../formats/locate-model.js";
import { integerIn, listOf, oneOf } from "../flags/option-values.js";
import { assertFolders } from "../output/bench-report.js";
import { exitOnSignals } from "../process/measure-servers.js";
import { batchSizes } from "./bench-engine.js";

const SHAPE_NAMES = ["prefill", "decode", "context"] as const;

interface PeersFlags {
  readonly model?: readonly string[];
  readonly llamaCpp?: string;
  readonly llamaCppArgs: string;
  readonly ikLlama?: string;
  readonly ikLlamaArgs: string;
  readonly nodeLlamaCpp?: string;
  readonly millraceArgs: string;
  readonly threads?: number;
  readonly rounds: number;
  readonly shapes: readonly Shape["name"][];
  readonly batch: readonly number[];
  readonly prefillTokens: number;
  readonly decodePrompt: number;
  readonly genTokens: number;
  readonly context: number;
  readonly runWith: string;
  readonly out?: string;
  readonly svg?: string;
  readonly from?: readonly string[];
}

/** The saved file: enough to judge the figures and to draw the table and picture again. */
interface PeersReport {
  readonly machine: object;
  readonly versions: object;
  readonly numThreads: number;
  readonly contenders: readonly { readonly name: string; readonly command: string }[];
  readonly runs: PeerRun[];
}

export function benchPeersCommand(): Command {
  const count = (flag: string, min = 1) => integerIn(flag, min, 1 << 20);
  return new Command("peers")
    .description("Run this engine and others in turn on the same GGUF files, and print the ratios of their medians.")
    .option("--model <paths>", "GGUF files, separated by commas", listOf("--model"))
    .option("--llama-cpp <path>", "llama.cpp's llama-batched-bench")
    .option("--llama-cpp-args <args>", "further arguments of llama.cpp", "-fa on")
    .option("--ik-llama <path>", "ik_llama.cpp's llama-batched-bench")
    .option("--ik-llama-args <args>", "further arguments of ik_llama.cpp", "-rtr -fa 1")
    .option("--node-llama-cpp <folder>", "folder with node_modules/node-llama-cpp")
    .option("--millrace-args <args>", "further arguments of millrace bench engine", "")
    .option("--threads <n>", "threads of each engine (default: one per physical core)", count("--threads"))
    .option("--rounds <n>", "runs of each engine for each shape", count("--rounds"), 3)
    .addOption(
      new Option("--shapes <names>", "shapes to measure, separated by commas")
        .argParser(shapeNames)
        .default(SHAPE_NAMES, SHAPE_NAMES.join(",")),
    )
    .addOption(
      new Option("--batch <sizes>", "sequences at once when decoding")
        .argParser(batchSizes)
        .default([1, 2, 4, 8, 16], "1,2,4,8,16"),
    )
    .option("--prefill-tokens <n>", "prompt tokens of the prefill shape", count("--prefill-tokens"), 512)
    .option("--decode-prompt <n>", "prompt tokens of the decode shape", count("--decode-prompt"), 64)
    .option("--gen-tokens <n>", "tokens generated per sequence", count("--gen-tokens", 2), 64)
    .option("--context <n>", "tokens of context at the end of the context shape", count("--context"), 4096)
    .option("--run-with <command>", "prefix of each engine's command, such as taskset -c 0,1", "")
    .option("--out <file>", "file to save all runs in, after each run")
    .option("--svg <file>", "SVG file for a chart of the ratios")
    .option("--from <files>", "measure nothing; use the runs of these saved files", listOf("--from"))
    .action(runBenchPeers);
}

function shapeNames(text: string): Shape["name"][] {
  return listOf("--shapes")(text, undefined).map(oneOf("--shapes", SHAPE_NAMES));
}

const words = (text: string): string[] => text.split(/\s+/).filter((word) => word !== "");

async function contendersOf(flags: PeersFlags, numThreads: number): Promise<Contender[]> {
  const { batchedBench, millrace, nodeLlamaCpp } = await import("../../bench/peers/contenders.js");
  const contenders = [millrace(numThreads, words(flags.millraceArgs))];
  if (flags.llamaCpp !== undefined) {
    contenders.push(batchedBench("llama.cpp", flags.llamaCpp, numThreads, words(flags.llamaCppArgs)));
  }
  if (flags.ikLlama !== undefined) {
    contenders.push(batchedBench("ik_llama.cpp", flags.ikLlama, numThreads, words(flags.ikLlamaArgs)));
  }
  if (flags.nodeLlamaCpp !== undefined) {
    contenders.push(nodeLlamaCpp(flags.nodeLlamaCpp, numThreads));
  }
  if (contenders.length > 1) return contenders;
  throw new MillraceError("invalid_option", "expected at least one peer to compare with, got none", {
    hint: "give --llama-cpp, --ik-llama or --node-llama-cpp",
  });
}

async function modelsOf(paths: readonly string[]): Promise<PeerModel[]> {
  const { readGguf } = await import("../../formats/gguf/read.js");
  return paths.map((path) => {
    const vocabSize = readGguf(path).metadata.strings("tokenizer.ggml.tokens")?.length ?? 0;
    return { name: nameOf(path), path, vocabSize };
  });
}

async function jobOf(flags: PeersFlags, numThreads: number): Promise<PeerJob> {
  if (flags.model === undefined) {
    throw new MillraceError("invalid_option", "expected --model with at least one GGUF file, got none", {
      hint: "all engines run the same files",
    });
  }
  if (flags.context <= flags.genTokens) {
    const message = `expected --context above --gen-tokens ${flags.genTokens}, got ${flags.context}`;
    throw new MillraceError("invalid_option", message, {
      hint: "the context contains the prompt and the generated tokens",
    });
  }
  const { shapesOf } = await import("../../bench/peers/shapes.js");
  return {
    models: await modelsOf(flags.model),
    shapes: shapesOf({ ...flags, batches: flags.batch }).filter(({ name }) => flags.shapes.includes(name)),
    contenders: await contendersOf(flags, numThreads),
    rounds: flags.rounds,
    runWith: words(flags.runWith),
  };
}

async function runBenchPeers(flags: PeersFlags): Promise<void> {
  assertFolders(flags);
  const [{ markdownOf, ratiosOf }, { readRuns }] = await Promise.all([
    import("../../bench/peers/ratios.js"),
    import("../../bench/peers/saved-runs.js"),
  ]);
  const cells = ratiosOf(flags.from === undefined ? await measure(flags) : flags.from.flatMap(readRuns));
  process.stdout.write(`${markdownOf(cells)}\n`);
  if (flags.svg === undefined) return;
  const { pictureOf } = await import("../../bench/peers/picture.js");
  writeFileSync(flags.svg, pictureOf(cells));
}

async function measure(flags: PeersFlags): Promise<PeerRun[]> {
  const numThreads = flags.threads ?? defaultNumThreads();
  const job = await jobOf(flags, numThreads);
  const [{ runPeers }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/peers/run.js"),
    import("../../bench/results/machine.js"),
  ]);
  const contenders = job.contenders.map((contender) => ({
    name: contender.name,
    // Saved results contain no paths of the machine.
    command: contender
      .command(job.models[0]!, job.shapes[0]!)
      .join(" ")
      .replace(/[^\s",=]*\//g, ""),
  }));
  const about = { machine: machineInfo(), versions: versions(), numThreads };
  const report: PeersReport = { ...about, contenders, runs: [] };
  exitOnSignals();
  await runPeers(job, (run) => {
    report.runs.push(run);
    const speeds = run.rows.map((row) => `${row.prefillTokensPerS.toFixed(1)}/${row.decodeTokensPerS.toFixed(1)}`);
    const about = `${run.model} ${run.shape.name} round ${run.round} ${run.contender}`;
    process.stderr.write(`${about}: prefill/decode tokens/s ${speeds.join(", ")}\n`);
    if (flags.out !== undefined) writeFileSync(flags.out, `${JSON.stringify(report, null, 1)}\n`);
  });
  return report.runs;
}
