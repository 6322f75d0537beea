/** One worker's share of a run: its clients or arrivals, each at its time, until their sessions end. */
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { OpenSession, Session, Turn } from "../workload/session.js";
import type { Agenda } from "./agenda.js";
import { type Connection, complete } from "./completion.js";
import type { RequestRecord } from "./record.js";

/** All times on the generator's clock. */
export type ShareLoad =
  /** Clients run the sessions `first`, `first + step`, … below `count`, one after another. */
  | {
      readonly kind: "clients";
      readonly startMs: readonly number[];
      readonly first: number;
      readonly step: number;
      readonly count: number;
    }
  | { readonly kind: "arrivals"; readonly sessions: readonly { readonly index: number; readonly atMs: number }[] };

export interface ShareSpec {
  readonly load: ShareLoad;
  /** No session begins after this time. */
  readonly stopMs: number;
}

interface ShareEvents {
  onSent(): void;
  onRecord(record: RequestRecord): void;
}

/**
 * Consecutive failures, plus one for each client, after which the server counts as gone and sending stops. Refused
 * arrivals do not count, because a refusal is an answer.
 */
const MAX_FAILURES = 10;

const NO_ANSWER: readonly string[] = ["connect", "timeout", "broken"];

/** Pause of a client after a failed request, so that a server that refuses immediately is not flooded. */
const RETRY_MS = 250;

export class Share {
  /** Whether requests were left out after too many failures. */
  hasGivenUp = false;
  #numFailuresInARow = 0;
  #isGivingUp = false;
  #isStopped = false;
  #nextSession = 0;
  #wakeUp: () => void = () => {};
  /** Ends all pending waits. */
  readonly #stopped = new Promise<void>((resolve) => {
    this.#wakeUp = resolve;
  });

  constructor(
    private readonly spec: ShareSpec,
    private readonly openSession: OpenSession,
    private readonly connection: Connection,
    private readonly agenda: Agenda,
    private readonly events: ShareEvents,
  ) {}

  /** Sends no further requests; those in progress are answered. */
  stop(): void {
    this.#isStopped = true;
    this.#wakeUp();
  }

  async run(): Promise<void> {
    const { load } = this.spec;
    if (load.kind === "clients") {
      this.#nextSession = load.first;
      await Promise.all(load.startMs.map((startMs) => this.#client(startMs, load)));
    } else {
      await this.#arrivals(load.sessions);
    }
  }

  #mayBegin(): boolean {
    return !this.#isStopped && this.connection.now() < this.spec.stopMs;
  }

  /** The next session's first request is prepared during the current answer, so that it causes no delay. */
  async #client(startMs: number, load: Extract<ShareLoad, { kind: "clients" }>): Promise<void> {
    const take = () => {
      const index = this.#nextSession;
      if (index >= load.count) return undefined;
      this.#nextSession += load.step;
      return this.#prepare(index);
    };
    let prepared = take();
    await this.#until(startMs);
    let freeMs = startMs;
    while (prepared !== undefined && this.#mayBegin()) {
      const running = this.#converse(prepared, freeMs);
      // After two turns all clients with answers in this turn have sent their next requests, too; sockets are reused
      // one turn later.
      await nextTurn();
      await nextTurn();
      prepared = take();
      freeMs = await running;
    }
    if (prepared !== undefined) this.#leaveOut();
  }

  async #arrivals(sessions: Extract<ShareLoad, { kind: "arrivals" }>["sessions"]): Promise<void> {
    const running: Promise<number>[] = [];
    for (const { index, atMs } of sessions) {
      const prepared = this.#prepare(index);
      await this.#until(atMs);
      if (!this.#mayBegin()) {
        this.#leaveOut();
        break;
      }
      running.push(this.#converse(prepared, atMs));
    }
    await Promise.all(running);
  }

  #leaveOut(): void {
    this.hasGivenUp ||= this.#isGivingUp;
  }

  #until(dueMs: number): Promise<void> {
    return Promise.race([this.agenda.until(dueMs), this.#stopped]);
  }

  #prepare(index: number): Prepared {
    const session = this.openSession(index);
    return { index, session, first: session.next("") };
  }

  /** @returns the time at which the last answer was complete */
  async #converse({ index, session, first }: Prepared, startMs: number): Promise<number> {
    let intendedMs = startMs;
    let turn = first;
    for (let number = 0; turn !== undefined; number++) {
      this.events.onSent();
      const place = { session: index, turn: number, intendedMs };
      const { record, answer } = await complete(this.connection, place, turn);
      this.events.onRecord(record);
      intendedMs = this.connection.now();
      if (record.failure !== undefined) return this.#onFailure(record.failure.kind);
      this.#numFailuresInARow = 0;
      turn = this.#isStopped ? undefined : session.next(answer);
    }
    return intendedMs;
  }

  async #onFailure(kind: NonNullable<RequestRecord["failure"]>["kind"]): Promise<number> {
    const { load } = this.spec;
    if (load.kind === "arrivals" && !NO_ANSWER.includes(kind)) return this.connection.now();
    this.#numFailuresInARow++;
    const numClients = load.kind === "clients" ? load.startMs.length : 1;
    if (this.#numFailuresInARow >= MAX_FAILURES + numClients) {
      this.#isGivingUp = true;
      this.stop();
    }
    await sleep(RETRY_MS);
    return this.connection.now();
  }
}

interface Prepared {
  readonly index: number;
  readonly session: Session;
  readonly first: Turn | undefined;
}
