/**
 * `millrace bench self-test`: checks the load generator against a server with known timings. Exits with 1 if it is not
 * accurate here.
 */
import { Command } from "commander";
import type { SelfTestResult } from "../../bench/mock/self-test.js";
import { pollOption, workersOption } from "../flags/bench-options.js";
import { integerIn, listOf } from "../flags/option-values.js";
import { formatTable } from "../output/format.js";

interface SelfTestFlags {
  readonly streams: readonly number[];
  readonly workers: number;
  readonly poll?: boolean;
  readonly json?: boolean;
}

export function benchSelfTestCommand(): Command {
  return new Command("self-test")
    .description("Check that the load generator is accurate on this machine, against a mock server of known timings.")
    .option(
      "--streams <counts>",
      "streams at once, separated by commas",
      (text: string) => listOf("--streams")(text, undefined).map(integerIn("--streams", 1, 4096)),
      [1, 16, 256] as readonly number[],
    )
    .addOption(workersOption())
    .addOption(pollOption())
    .option("--json", "print one JSON object instead of a table")
    .action(runSelfTest);
}

async function runSelfTest(flags: SelfTestFlags): Promise<void> {
  const [{ MOCK_TIMINGS, TOLERANCE, selfTest }, { LoadGenerator }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/mock/self-test.js"),
    import("../../bench/load/generator.js"),
    import("../../bench/results/machine.js"),
  ]);
  const generator = await LoadGenerator.start(flags.workers, flags.poll);
  try {
    const results = await selfTest(generator, flags.streams, flags.poll === true, ({ streams, numRequests }) => {
      process.stderr.write(`  ${streams} at once: ${numRequests} requests\n`);
    });
    const isTrusted = results.every((result) => result.isWithinTolerance);
    const about = { machine: machineInfo(), versions: versions() };
    const report = { isTrusted, tolerance: TOLERANCE, timings: MOCK_TIMINGS, results, ...about };
    process.stdout.write(flags.json ? `${JSON.stringify(report)}\n` : textOf(results, TOLERANCE));
    if (!isTrusted) process.exitCode = 1;
  } finally {
    generator.close();
  }
}

function textOf(results: readonly SelfTestResult[], tolerance: number): string {
  const percent = (share: number) => `${share >= 0 ? "+" : ""}${(100 * share).toFixed(2)} %`;
  const header = ["streams", "TTFT", "error", "TPOT", "error", "the mock's own TTFT", "TPOT", "lag", "within"];
  const rows = results.map((result) => [
    String(result.streams),
    `${result.ttftMs.toFixed(2)} ms`,
    percent(result.ttftError),
    `${result.tpotMs.toFixed(3)} ms`,
    percent(result.tpotError),
    `${result.mock.ttftMs.toFixed(2)} ms`,
    `${result.mock.tpotMs.toFixed(3)} ms`,
    `${result.lag.typicalMs.toFixed(3)} ms`,
    result.isWithinTolerance ? "yes" : "NO",
  ]);
  const bad = results.filter((result) => !result.isWithinTolerance).map((result) => result.streams);
  const limit = `${100 * tolerance} %`;
  const verdict =
    bad.length === 0
      ? `Medians are within ${limit} of a server with 20 ms to the first token and 5 ms per further one.`
      : `Medians are NOT within ${limit} at ${bad.join(", ")} streams: this machine is too slow or too busy for these loads.`;
  return `${formatTable([header, ...rows])}\n${verdict}\n`;
}
