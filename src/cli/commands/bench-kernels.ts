/**
 * `millrace bench kernels` (`npm run bench:kernels`): measures each operation's speed and its share of the machine's
 * roofline.
 */

import { Command, Option } from "commander";
import type { DecodeRoofline } from "../../bench/kernels/decode-roofline.js";
import type { KernelBenchResult, OpGroup } from "../../bench/kernels/kernel-bench.js";
import { defaultNumThreads } from "../../core/cpu.js";
import type { WeightType } from "../../formats/dequantize.js";
import { TENSOR_TYPES } from "../../formats/gguf/tensor-types.js";
import { integerIn, listOf, oneOf } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";

const GROUPS = ["linear", "experts", "attention", "sample", "small"] as const satisfies readonly OpGroup[];
const GGUF_TYPES = Object.keys(TENSOR_TYPES) as WeightType[];
/** Includes the types of model folders. */
const TYPES: readonly WeightType[] = [...GGUF_TYPES, "I8", "F8_E4M3"];
const ROWS = [1, 2, 4, 8, 16, 64, 512];

interface KernelsFlags {
  readonly ops: readonly OpGroup[];
  readonly types: readonly WeightType[];
  readonly rows: readonly number[];
  readonly threads?: number;
  readonly minTimeMs: number;
  readonly model?: string;
  readonly json?: boolean;
}

export function benchKernelsCommand(): Command {
  const list =
    <T>(flag: string, parse: (item: string) => T) =>
    (text: string): T[] =>
      listOf(flag)(text, undefined).map(parse);
  const option = (flags: string, description: string, parse: (text: string) => unknown, all: readonly unknown[]) =>
    new Option(flags, description).argParser(parse).default(all, all.join(","));
  return new Command("kernels")
    .description("Measure each operation's speed, and its share of the machine's memory bandwidth or arithmetic speed.")
    .addOption(option("--ops <groups>", "operations to measure", list("--ops", oneOf("--ops", GROUPS)), GROUPS))
    .addOption(
      option(
        "--types <types>",
        "weight types, also I8 and F8_E4M3 of folders",
        list("--types", oneOf("--types", TYPES)),
        GGUF_TYPES,
      ),
    )
    .addOption(
      option("--rows <counts>", "rows of the linear operations", list("--rows", integerIn("--rows", 1, 4096)), ROWS),
    )
    .option("--threads <n>", "kernel threads (default: physical cores)", integerIn("--threads", 1, 1024))
    .option(
      "--min-time-ms <n>",
      "how long to repeat each operation, in milliseconds",
      integerIn("--min-time-ms", 1, 60_000),
      150,
    )
    .option("--model <file>", "GGUF file: also measure decoding with it, as a share of the bandwidth")
    .option("--json", "print one JSON object instead of a table")
    .action(runBenchKernels);
}

async function runBenchKernels(flags: KernelsFlags): Promise<void> {
  const [{ benchKernels }, { loadProbes }, { benchDecode }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/kernels/kernel-bench.js"),
    import("../../bench/kernels/probes.js"),
    import("../../bench/kernels/bench-decode.js"),
    import("../../bench/results/machine.js"),
  ]);
  const numThreads = flags.threads ?? defaultNumThreads();
  const probes = loadProbes(numThreads);
  const spec = { groups: flags.ops, types: flags.types, numRows: flags.rows, numThreads, isa: probes.isa };
  const results = benchKernels({ ...spec, minSeconds: flags.minTimeMs / 1000 }, probes, (result) => {
    process.stderr.write(`${result.op}, ${result.shape}: ${duration(result.seconds)}\n`);
  });
  const decode = flags.model === undefined ? undefined : await benchDecode(flags.model, numThreads, probes);
  const about = { numThreads, machine: machineInfo(), versions: versions() };
  const report = { results, ...(decode === undefined ? {} : { decode }), ...about };
  process.stdout.write(flags.json ? `${jsonText(report)}\n` : `${tableOf(results, decode)}\n`);
}

function duration(seconds: number): string {
  return seconds < 1e-3 ? `${(seconds * 1e6).toFixed(1)} µs` : `${(seconds * 1e3).toFixed(2)} ms`;
}

function tableOf(results: readonly KernelBenchResult[], decode: DecodeRoofline | undefined): string {
  const of = (value: number | undefined, ceiling: number | undefined): string =>
    value === undefined || ceiling === undefined ? "" : `${value.toFixed(1)} of ${ceiling.toFixed(1)}`;
  const share = (value: number | undefined): string => (value === undefined ? "" : `${(100 * value).toFixed(0)} %`);
  const rows = results.map((result) => [
    result.op,
    result.shape,
    duration(result.seconds),
    of(result.gbPerS, result.ceilingGbPerS),
    of(result.gmacPerS, result.ceilingGmacPerS),
    share(result.rooflineShare),
  ]);
  if (decode !== undefined) {
    const { tokensPerS, gbPerS, ceilingGbPerS, rooflineShare } = decode;
    const perToken = duration(1 / tokensPerS);
    rows.push(["decode", "1 sequence, whole model", perToken, of(gbPerS, ceilingGbPerS), "", share(rooflineShare)]);
  }
  return formatTable([["operation", "shape", "time", "GB/s", "GMAC/s", "of the roofline"], ...rows]);
}
