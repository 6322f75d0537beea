/** The status of an instance: routing's view, plus fields for supervision, scaling and administration. */
import type { EngineName } from "../upstream/engine.js";
import type { Upstream } from "../upstream/upstream.js";

export interface InstanceStatus extends Upstream {
  /** The instance is a server that the fleet attached to and did not start. */
  readonly isAttached: boolean;
  /** Why the instance failed or became suspect; during its start, the progress of its build. */
  readonly reason: string | undefined;
  /** After repeated failures, the next start is minutes away, or will not come. */
  readonly isGivenUp: boolean;
  readonly pid: number | undefined;
  readonly logFile: string | undefined;
}

/** The supervisor's view of an instance, whether the fleet started it or attached to it. */
export interface FleetInstance {
  readonly status: InstanceStatus;
  /** Whether the last command was to run, even if the instance has not reached that state yet. */
  readonly isWanted: boolean;
  start(): Promise<void>;
  /** Stops the instance after its running requests. */
  stop(): Promise<void>;
  /** Brings the instance to ready from any state, with a new process if the fleet starts it. */
  restart(): Promise<void>;
  /** Stops waiting for running requests. */
  hurry(): void;
  /** Checks the health at once; resolves after the check. */
  nudge(): Promise<void>;
}

/** Whether the instance will soon take requests; false for a failed attached server, which the fleet cannot restart. */
export function isComing({ state, isAttached, isGivenUp }: InstanceStatus): boolean {
  return state === "starting" || state === "suspect" || (state === "failed" && !isAttached && !isGivenUp);
}

export function firstStatus(
  id: string,
  model: string,
  engine: EngineName,
  rest: Pick<InstanceStatus, "isAttached" | "logFile" | "starts">,
): InstanceStatus {
  return {
    id,
    model,
    engine,
    ...rest,
    state: "stopped",
    isComing: false,
    target: undefined,
    capacity: { seats: undefined, kvTokens: undefined, blockSize: undefined },
    metrics: undefined,
    reason: undefined,
    isGivenUp: false,
    pid: undefined,
  };
}
