/** Runs contenders in turn, one process at a time, and keeps all their figures. */
import { spawn } from "node:child_process";
import { endingWithUs } from "../../core/child-end.js";
import { MillraceError } from "../../core/errors.js";
import type { Contender, PeerModel } from "./contenders.js";
import { checkedRows } from "./parse.js";
import type { Shape, SpeedRow } from "./shapes.js";

/** One process's measurement. */
export interface PeerRun {
  readonly model: string;
  readonly shape: Shape;
  readonly contender: string;
  readonly round: number;
  readonly rows: readonly SpeedRow[];
}

export interface PeerJob {
  readonly models: readonly PeerModel[];
  readonly shapes: readonly Shape[];
  readonly contenders: readonly Contender[];
  readonly rounds: number;
  /** Words before each command, such as `taskset -c 0,1`. */
  readonly runWith: readonly string[];
}

/** The length of a failed process's last output in the error. */
const TAIL_CHARS = 600;

/**
 * @returns the command's output, stdout first (ik_llama.cpp's tool writes its table to stderr). Throws peer_failed when
 * the command cannot be started or fails.
 */
export function outputOf(name: string, command: readonly string[]): Promise<string> {
  const [file, ...args] = command;
  return new Promise((resolve, reject) => {
    const fail = (got: string) => {
      const message = `expected ${name} to measure, got ${got}`;
      reject(new MillraceError("peer_failed", message, { hint: `run it by hand: ${command.join(" ")}` }));
    };
    const child = endingWithUs(spawn(file!, args, { stdio: ["ignore", "pipe", "pipe"] }));
    const text = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      text.stdout += chunk;
    });
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      text.stderr += chunk;
    });
    child.once("error", (error) => fail(error.message));
    child.once("close", (exitCode, signal) => {
      if (exitCode === 0) resolve(`${text.stdout}\n${text.stderr}`);
      else fail(`exit ${exitCode ?? signal}: ${text.stderr.trim().slice(-TAIL_CHARS)}`);
    });
  });
}

/**
 * Within a round all contenders measure the same shape one after another, so that drift of the machine's speed affects
 * all equally; the order alternates between rounds.
 * @param onRun called after each process
 */
export async function runPeers(job: PeerJob, onRun: (run: PeerRun) => void): Promise<void> {
  for (const model of job.models) {
    for (const shape of job.shapes) {
      for (let round = 1; round <= job.rounds; round++) {
        const turn = round % 2 === 1 ? job.contenders : [...job.contenders].reverse();
        for (const contender of turn) {
          const output = await outputOf(contender.name, [...job.runWith, ...contender.command(model, shape)]);
          const rows = checkedRows(contender.name, shape, contender.parse(output));
          onRun({ model: model.name, shape, contender: contender.name, round, rows });
        }
      }
    }
  }
}
