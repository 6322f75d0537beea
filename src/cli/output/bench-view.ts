/** Progress of a benchmark: a line for each finished run and, on a terminal, a live line for the current run. */
import type { Progress } from "../../bench/load/messages.js";
import { READ_LATE, SENT_LATE, throughputOf } from "../../bench/measure/run-metrics.js";
import { figure, milliseconds } from "../../bench/report/words.js";
import type { BenchRun } from "../../bench/results/schema.js";
import type { RunnerEvents, RunPlace } from "../../bench/run/runner.js";

const BAR_WIDTH = 20;

/** @param now clock in milliseconds */
export function benchView(stream: NodeJS.WriteStream, now: () => number = () => performance.now()): RunnerEvents {
  const rewrite = stream.isTTY ? "\r\u001b[2K" : "";
  const startMs = now();
  let runStartMs = startMs;
  let numDoneHere = 0;
  const left = (place: RunPlace): string => {
    if (numDoneHere === 0) return "";
    const seconds =
      ((now() - startMs) / numDoneHere / 1000) * (place.numRuns - place.numBefore) - (now() - runStartMs) / 1000;
    return seconds < 90 ? `, ${Math.max(1, Math.round(seconds))} s left` : `, ${Math.round(seconds / 60)} min left`;
  };
  const status = (place: RunPlace, text: string): void => {
    if (!stream.isTTY) return;
    const full = Math.round((BAR_WIDTH * place.numBefore) / place.numRuns);
    const bar = "█".repeat(full) + "░".repeat(BAR_WIDTH - full);
    const line = `${bar} ${place.numBefore + 1}/${place.numRuns}  ${describe(place)}  ${text}${left(place)}`;
    stream.write(rewrite + line.slice(0, Math.max(20, stream.columns - 1)));
  };
  return {
    onRunStart: (place) => {
      runStartMs = now();
      status(place, "warming up");
    },
    onProgress: (place, progress) => status(place, progressText(progress, now() - runStartMs)),
    onRun: (place, run) => {
      numDoneHere++;
      stream.write(
        `${rewrite}${run.voidReasons.length === 0 ? "✓" : "✗"} ${describe(place)}: ${runText(place, run)}\n`,
      );
    },
  };
}

const describe = ({ cell, round, target }: RunPlace): string => `${cell.name}, round ${round}, ${target}`;

function progressText({ numSent, numDone, numFailed, numOutputTokens }: Progress, elapsedMs: number): string {
  const failed = numFailed === 0 ? "" : `, ${numFailed} failed`;
  const speed = `${figure((1000 * numOutputTokens) / elapsedMs)} tokens/s`;
  return `${numDone} answered, ${numSent - numDone} under way${failed}, ${speed}`;
}

function runText({ cell }: RunPlace, { metrics, voidReasons, client }: BenchRun): string {
  const isOfVectors = cell.workload.kind === "texts";
  const numFailed = metrics.failures.reduce((sum, failure) => sum + failure.count, 0);
  const [first] = metrics.failures;
  return [
    `${figure(throughputOf(metrics))} ${isOfVectors ? "texts/s" : "tokens/s"}`,
    `${isOfVectors ? "latency" : "TTFT"} p50 ${milliseconds(metrics.ttftMs?.percentiles.p50)}`,
    ...(isOfVectors ? [] : [`TPOT p50 ${milliseconds(metrics.tpotMs?.percentiles.p50)}`]),
    ...(first === undefined
      ? []
      : [`${numFailed} of ${metrics.numRequests} failed (${first.kind}: ${first.example.slice(0, 120)})`]),
    ...voidReasons.map((reason) => `VOID: ${reason}${delayText(reason, metrics, client)}`),
  ].join(", ");
}

/** The delay that made a run void, beside the time per token. */
function delayText(reason: string, { tpotMs, sendDelayMs }: BenchRun["metrics"], client: BenchRun["client"]): string {
  const delayMs = { [READ_LATE]: client.typicalMs, [SENT_LATE]: sendDelayMs?.percentiles.p50 }[reason];
  const perToken = tpotMs?.percentiles.p50 ?? tpotMs?.mean;
  return delayMs === undefined ? "" : ` (${milliseconds(delayMs)} at ${milliseconds(perToken)} per token)`;
}
