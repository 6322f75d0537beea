/**
 * Files and batches as the gateway keeps them, and the states that a batch goes through. Times are whole seconds since
 * 1970.
 */
import type { CallerIdentity } from "../caller-identity.js";

export const FILE_PURPOSES = ["batch", "fine-tune", "assistants", "vision", "user_data", "evals"] as const;
/** message_results: of Anthropic's batches, which have no files that clients see. */
type FilePurpose = (typeof FILE_PURPOSES)[number] | "batch_output" | "message_results";

export interface FileRecord {
  readonly id: string;
  readonly tenant: string;
  readonly filename: string;
  readonly purpose: FilePurpose;
  readonly bytes: number;
  readonly createdAt: number;
  /** Undefined: kept until it is deleted. */
  readonly expiresAt: number | undefined;
}

/** The API that made a batch; the form of its objects and of its results follows. */
export type BatchKind = "openai" | "anthropic";

/**
 * validating → in_progress → finalizing → completed | expired; validating → failed, and later ones too if the gateway
 * has lost the batch's input; either of the first two → cancelling → cancelled.
 */
export type BatchState =
  | "validating"
  | "in_progress"
  | "finalizing"
  | "completed"
  | "failed"
  | "expired"
  | "cancelling"
  | "cancelled";

const NEXT_STATES: Readonly<Record<BatchState, readonly BatchState[]>> = {
  validating: ["in_progress", "failed", "cancelling"],
  in_progress: ["finalizing", "cancelling", "failed"],
  finalizing: ["completed", "expired", "failed"],
  cancelling: ["cancelled", "failed"],
  completed: [],
  failed: [],
  expired: [],
  cancelled: [],
};

export function mayFollow(from: BatchState, to: BatchState): boolean {
  return NEXT_STATES[from].includes(to);
}

export function isOver(state: BatchState): boolean {
  return NEXT_STATES[state].length === 0;
}

/** A fault of the input file. `line` counts from 1; null: the fault is the whole file's. */
export interface LineFault {
  readonly code: string;
  readonly line: number | null;
  readonly message: string;
  readonly param: string | null;
}

/** Sums over the answered lines, in OpenAI's convention: `input` includes `cached`, `output` includes `reasoning`. */
export interface BatchUsage {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly reasoning: number;
}

export const NO_USAGE: BatchUsage = { input: 0, cached: 0, output: 0, reasoning: 0 };

export function sumOf(a: BatchUsage, b: BatchUsage): BatchUsage {
  return {
    input: a.input + b.input,
    cached: a.cached + b.cached,
    output: a.output + b.output,
    reasoning: a.reasoning + b.reasoning,
  };
}

/** How lines ended. The sum over all kinds is the number of lines once the batch is over. */
interface LineCounts {
  readonly succeeded: number;
  readonly errored: number;
  readonly expired: number;
  readonly cancelled: number;
}

export const NO_LINES: LineCounts = { succeeded: 0, errored: 0, expired: 0, cancelled: 0 };

/** The time at which a batch entered each state; absent: it has not. */
type StateTimes = Readonly<Partial<Record<BatchState, number>>>;

export interface BatchRecord {
  readonly id: string;
  readonly kind: BatchKind;
  /** The caller for whom the lines are sent. */
  readonly owner: CallerIdentity;
  /** The path that every line is sent to. */
  readonly endpoint: string;
  /** Empty for Anthropic's batches, whose requests come with the batch. */
  readonly inputFileId: string;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  /** Life of the output files in seconds, from their creation; undefined: the gateway's retention. */
  readonly outputExpiresAfter: number | undefined;
  /** Headers of the creating request that every line repeats. */
  readonly headers: Readonly<Record<string, string>>;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly state: BatchState;
  readonly times: StateTimes;
  /** 0 until the input is validated. */
  readonly numLines: number;
  /** Names of the models that the lines ask for. */
  readonly models: readonly string[];
  readonly counts: LineCounts;
  readonly usage: BatchUsage;
  readonly faults: readonly LineFault[];
  readonly outputFileId: string | undefined;
  readonly errorFileId: string | undefined;
}
