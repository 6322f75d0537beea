/** What is known of an instance: routing's view of it, and what only its keepers ask for. */
import type { EngineName } from "../upstream/engine.js";
import type { Upstream } from "../upstream/upstream.js";

export interface InstanceStatus extends Upstream {
  /** A server that ran already: its process is not ours. */
  readonly isAttached: boolean;
  /** Why it failed or could not rest. */
  readonly reason: string | undefined;
  /** It failed again and again: its next start is minutes away, or there is none. */
  readonly isGivenUp: boolean;
  readonly pid: number | undefined;
  readonly logFile: string | undefined;
}

/** What the supervisor does with instances, whoever runs their processes. */
export interface FleetInstance {
  readonly status: InstanceStatus;
  /** Whether it should be running: what was asked last, not what is so already. */
  readonly isWanted: boolean;
  start(): Promise<void>;
  /** Lets it finish its requests first. */
  stop(): Promise<void>;
  /** To ready from anything, with a new process where it is ours. */
  restart(): Promise<void>;
  /** Ends waiting for requests to finish. */
  hurry(): void;
  /** Its health is doubted. Resolves when it has been asked. */
  nudge(): Promise<void>;
}

/** A server that is not ours comes back when somebody else sees to it. */
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
