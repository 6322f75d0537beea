/**
 * Three threads in three lanes, since masks must not wait for compiles of unknown length. One compiles. One computes
 * the masks of grammars that compile quickly; it compiles a grammar again if it already serves other requests. One does
 * both for slow grammars. A thread that serves no request trades lanes with the thread that has just compiled, so that
 * most grammars are compiled once. A thread starts when it is needed; a spare one replaces a thread that must be ended
 * at its work, since a start takes as long as some compiles.
 */
import { createHash } from "node:crypto";
import { errorFromRecord, MillraceError } from "../../core/errors.js";
import { CompileOrder } from "./compile-order.js";
import { GrammarService, type LostThread } from "./grammar-service.js";
import type { MaskMemory, MaskShape } from "./mask-memory.js";
import type { ComputeMasks, FromGrammarThread } from "./messages.js";
import { MAX_CACHED_GRAMMARS, RecentMap } from "./recent-map.js";

/** A compile this short may delay the masks of other requests, once. */
const QUICK_MS = 250;
/** So may a compile this short, if it would have to wait for others otherwise. */
const MOST_BESIDE_MS = 1000;
/** After this time, a compile yields its lane to compiles that others wait for. */
const SLICE_MS = 300;
/** A compile this long counts as slow. */
const WARM_MS = 100;
/** Longest wait of a key for a compile turn. */
const MOST_WAIT_MS = 30_000;
/**
 * Time for which a failed grammar is refused at once. It is tried again later, since a busy machine may have been the
 * cause.
 */
const CULPRIT_MS = 10 * 60_000;
const MAX_REMEMBERED = 1024;

/** A request with a grammar. */
interface Opening {
  readonly requestId: number;
  readonly tenant: string;
  readonly recipe: string;
  readonly stopTokenIds: readonly number[];
  /** Output so far. */
  outputTokens(): number[];
}

type LaneEvent =
  | { readonly kind: "opened" | "restarted"; readonly requestId: number }
  | { readonly kind: "failed"; readonly requestId: number; readonly error: MillraceError };

interface LaneCounts {
  readonly numCompiled: number;
  readonly numCacheHits: number;
  readonly compileMs: number;
  readonly numThreadsReplaced: number;
}

interface Entry extends Opening {
  /** Hash of the recipe. */
  readonly key: string;
  /** Lane in which the request is or will be open. */
  lane: Lane | undefined;
  isOpened: boolean;
  /** The grammar is known to be slow. */
  isSlow: boolean;
}

type Role = "compile" | "quick" | "slow";

interface Lane {
  readonly service: GrammarService;
  readonly entries: Set<Entry>;
  /** The compile under way. */
  job: Job | undefined;
  /**
   * Keys of the grammars that the lane's thread keeps compiled. A map of the same size, set in the same order, drops
   * the same ones.
   */
  readonly known: RecentMap<true>;
}

interface Job {
  readonly entry: Entry;
  /** Time at which the thread was first seen at this compile. */
  startedMs: number | undefined;
  /** Milliseconds already charged to the tenant. */
  chargedMs: number;
}

export class GrammarLanes {
  /** A word in shared memory: each thread adds 1 where it has something to tell, and wakes who waits. */
  readonly #wakeWord = new Int32Array(new SharedArrayBuffer(4));
  readonly #lanes: Record<Role, Lane>;
  /** The spare thread, started while the compiling one may have to be ended. */
  #spare: Lane;
  readonly #entries = new Map<number, Entry>();
  readonly #order: CompileOrder<Entry>;
  /** By key: milliseconds that the compile took. */
  readonly #times = new RecentMap<number>(MAX_REMEMBERED);
  /** By key: time at which the grammar ended its thread. */
  readonly #culprits = new RecentMap<{ readonly error: MillraceError; readonly atMs: number }>(MAX_REMEMBERED);
  #events: LaneEvent[] = [];
  #counts: LaneCounts = { numCompiled: 0, numCacheHits: 0, compileMs: 0, numThreadsReplaced: 0 };

  /** @param timeoutMs time limit for compiling one grammar, and for the masks of one position */
  constructor(modelPath: string, shape: MaskShape, timeoutMs: number) {
    const lane = (): Lane => ({
      service: new GrammarService(modelPath, shape, timeoutMs, this.#wakeWord),
      entries: new Set(),
      job: undefined,
      known: new RecentMap(MAX_CACHED_GRAMMARS),
    });
    this.#order = new CompileOrder(timeoutMs);
    this.#lanes = { compile: lane(), quick: lane(), slow: lane() };
    this.#spare = lane();
  }

  get counts(): LaneCounts {
    return this.#counts;
  }

  get numWakes(): number {
    return Atomics.load(this.#wakeWord, 0);
  }

  /** Returns when a thread has something to tell after `seen`, or after `timeoutMs`. */
  waitForWake(seen: number, timeoutMs: number): void {
    Atomics.wait(this.#wakeWord, 0, seen, timeoutMs);
  }

  /** Is any thread at work? */
  get isBusy(): boolean {
    return this.#all.some(({ service }) => service.isBusy);
  }

  /** Is a thread at work for the request? */
  isAt(requestId: number): boolean {
    return this.#all.some(({ service }) => service.isBusy && service.memory.busy().requestId === requestId);
  }

  open(opening: Opening): void {
    const nowMs = performance.now();
    const key = createHash("sha256").update(opening.recipe).digest("base64");
    const entry: Entry = { ...opening, key, lane: undefined, isOpened: false, isSlow: this.#isSlow(key) };
    this.#entries.set(opening.requestId, entry);
    const culprit = this.#culprits.get(key);
    const pauseMs = this.#homeOf(key) === undefined ? this.#order.pauseMs(opening.tenant, nowMs) : 0;
    if (culprit !== undefined && nowMs - culprit.atMs < CULPRIT_MS) this.#fail(entry, culprit.error);
    else if (pauseMs > 0) this.#fail(entry, overBudget(pauseMs));
    else this.#order.add(entry, opening.tenant, nowMs);
    this.#dispatch();
  }

  close(requestId: number): void {
    const entry = this.#entries.get(requestId);
    if (entry === undefined) return;
    this.#entries.delete(requestId);
    this.#order.remove(entry);
    this.#leave(entry);
  }

  /** The request must be open. */
  sendMasks(message: ComputeMasks): void {
    this.#entries.get(message.requestId)?.lane?.service.send(message);
  }

  /** The memory with the request's masks. */
  memoryOf(requestId: number): MaskMemory | undefined {
    return this.#entries.get(requestId)?.lane?.service.memory;
  }

  poll(): readonly LaneEvent[] {
    for (const lane of this.#all) {
      const { messages, lost } = lane.service.poll();
      for (const message of messages) this.#take(lane, message);
      if (lost !== undefined) this.#replace(lane, lost);
    }
    const nowMs = performance.now();
    this.#makeRoom(nowMs);
    for (const entry of this.#order.takeStarved(MOST_WAIT_MS, nowMs)) this.#fail(entry, busy());
    this.#dispatch();
    // After the dispatch, which sends grammars compiled meanwhile whatever the budget.
    for (const entry of this.#order.takeOverBudget(nowMs)) {
      this.#fail(entry, overBudget(this.#order.pauseMs(entry.tenant, nowMs)));
    }
    const events = this.#events;
    this.#events = [];
    return events;
  }

  stop(): void {
    for (const { service } of [...this.#all, this.#spare]) service.stop();
  }

  get #all(): readonly Lane[] {
    return Object.values(this.#lanes);
  }

  #isSlow(key: string): boolean {
    return (this.#times.get(key) ?? 0) > QUICK_MS;
  }

  /** The lane in which requests of this grammar can be opened at once. */
  #homeOf(key: string): Lane | undefined {
    return [this.#lanes.quick, this.#lanes.slow].find(({ known }) => known.has(key));
  }

  #dispatch(): void {
    if (this.#order.size === 0) return;
    const isKnown = (entry: Entry) => this.#homeOf(entry.key) !== undefined;
    for (const entry of this.#order.takeWhere(isKnown)) this.#send(this.#homeOf(entry.key)!, entry, false);
    for (const role of ["compile", "slow"] as const) {
      const lane = this.#lanes[role];
      if (lane.job !== undefined) continue;
      const entry = this.#order.next(({ isSlow }) => isSlow === (role === "slow"), performance.now());
      if (entry !== undefined) this.#send(lane, entry, true);
    }
  }

  #send(lane: Lane, entry: Entry, isCompiled: boolean): void {
    const { requestId, key, recipe, stopTokenIds } = entry;
    if (isCompiled) lane.job = { entry, startedMs: undefined, chargedMs: 0 };
    lane.entries.add(entry);
    entry.lane = lane;
    lane.service.send({ kind: "open", requestId, key, recipe, stopTokenIds, tokenIds: entry.outputTokens() });
  }

  #leave(entry: Entry): void {
    const { lane, requestId } = entry;
    if (lane === undefined || !lane.entries.delete(entry)) return;
    entry.lane = undefined;
    if (lane.service.isStarted) lane.service.send({ kind: "close", requestId });
  }

  #take(lane: Lane, message: FromGrammarThread): void {
    const { requestId } = message;
    // Even if the request has left: the thread keeps the compiled grammar.
    if (message.kind === "opened") lane.known.set(message.key, true);
    const job = lane.job?.entry.requestId === requestId ? this.#endJob(lane) : undefined;
    const entry = this.#entries.get(requestId) ?? job?.entry;
    if (entry === undefined) return;
    if (message.kind === "failed") {
      if (job !== undefined) this.#chargeUpTo(job, runningMs(job));
      const error = errorOf(message);
      // A failure that leaves the thread whole may depend on the request's other terms, so it is not remembered.
      if (message.isBroken) this.#remember(entry.key, error);
      this.#fail(entry, error);
      return;
    }
    const { compileMs, isFromCache } = message;
    const { numCompiled, numCacheHits } = this.#counts;
    this.#count({
      compileMs: this.#counts.compileMs + compileMs,
      ...(isFromCache ? { numCacheHits: numCacheHits + 1 } : { numCompiled: numCompiled + 1 }),
    });
    if (!isFromCache) {
      if (job === undefined) this.#order.charge(entry.tenant, compileMs, performance.now());
      else this.#chargeUpTo(job, compileMs);
      this.#times.set(entry.key, compileMs);
    }
    if (entry.lane !== lane) return;
    if (lane === this.#lanes.compile) this.#settle(entry, lane);
    else this.#opened(entry);
  }

  /** The grammar was compiled in the compiling lane, where no grammar stays. */
  #settle(entry: Entry, lane: Lane): void {
    const isFree = ({ entries, job }: Lane) => entries.size === 0 && job === undefined;
    const { quick, slow } = this.#lanes;
    const isSlow = this.#isSlow(entry.key);
    const tookMs = this.#times.get(entry.key) ?? 0;
    // While others occupy the slow lane, a moderately slow grammar does not wait for them.
    const isElsewhere = isSlow && !isFree(slow) && (isFree(quick) || tookMs < MOST_BESIDE_MS);
    const role = isSlow && !isElsewhere ? "slow" : "quick";
    const home = this.#lanes[role];
    if (isFree(home)) {
      this.#lanes[role] = lane;
      this.#lanes.compile = home;
      // A spare thread saves the next grammar the wait for a start.
      home.service.warm();
      this.#opened(entry);
      return;
    }
    this.#leave(entry);
    if (role === "quick") this.#send(home, entry, false);
    else {
      entry.isSlow = true;
      this.#order.add(entry, entry.tenant, performance.now());
    }
  }

  #opened(entry: Entry): void {
    if (entry.isOpened) return;
    entry.isOpened = true;
    this.#events.push({ kind: "opened", requestId: entry.requestId });
  }

  /**
   * A slow compile makes room for compiles that others wait for: it goes on in the slow lane, or begins again there
   * later.
   */
  #makeRoom(nowMs: number): void {
    const lane = this.#lanes.compile;
    const { job } = lane;
    if (job === undefined) return;
    const { service } = lane;
    if (job.startedMs === undefined) {
      if (service.isBusy && service.memory.busy().requestId === job.entry.requestId) job.startedMs = nowMs;
      return;
    }
    const ranMs = nowMs - job.startedMs;
    const { slow } = this.#lanes;
    const isSlowFree = slow.entries.size === 0 && slow.job === undefined;
    // One of the two threads compiles next.
    if (ranMs > WARM_MS) (isSlowFree ? slow : this.#spare).service.warm();
    if (ranMs < SLICE_MS) return;
    const { tenant, requestId } = job.entry;
    const isWanted = this.#entries.has(requestId);
    const isQuick = ({ isSlow }: Entry) => !isSlow;
    if (isWanted ? !this.#order.hasWorthier(tenant, ranMs, isQuick, nowMs) : this.#order.size === 0) return;
    this.#chargeUpTo(job, ranMs);
    if (isWanted && isSlowFree) {
      this.#lanes.slow = lane;
      this.#lanes.compile = slow;
      return;
    }
    lane.job = undefined;
    lane.entries.clear();
    lane.known.clear();
    service.stop();
    this.#lanes.compile = this.#spare;
    this.#spare = lane;
    this.#count({ numThreadsReplaced: this.#counts.numThreadsReplaced + 1 });
    if (!isWanted) return;
    Object.assign(job.entry, { lane: undefined, isSlow: true });
    this.#order.add(job.entry, tenant, nowMs);
  }

  /** The request whose work ended the thread fails; the others continue on a new thread. */
  #replace(lane: Lane, { requestId, hasWorked, problem }: LostThread): void {
    this.#count({ numThreadsReplaced: this.#counts.numThreadsReplaced + 1 });
    const job = this.#endJob(lane);
    const entries = [...lane.entries];
    lane.entries.clear();
    lane.known.clear();
    if (job !== undefined) this.#chargeUpTo(job, runningMs(job));
    if (!hasWorked) {
      // A new thread would not start either.
      const waiting = this.#order.takeWhere(() => true);
      for (const entry of [...entries, ...waiting]) this.#fail(entry, failure(problem));
      return;
    }
    // A request cancelled meanwhile is in neither list, and no other request fails in its stead.
    const culprit = [...entries, job?.entry].find((entry) => entry?.requestId === requestId);
    if (culprit !== undefined) {
      const error = refusal(problem);
      this.#remember(culprit.key, error);
      this.#fail(culprit, error);
    }
    for (const entry of entries) {
      if (!this.#entries.has(entry.requestId) || entry === culprit) continue;
      this.#send(lane, entry, lane !== this.#lanes.quick && lane.job === undefined);
      if (entry.isOpened) this.#events.push({ kind: "restarted", requestId: entry.requestId });
    }
  }

  #endJob(lane: Lane): Job | undefined {
    const { job } = lane;
    lane.job = undefined;
    return job;
  }

  #chargeUpTo(job: Job, ms: number): void {
    this.#order.charge(job.entry.tenant, Math.max(0, ms - job.chargedMs), performance.now());
    job.chargedMs = Math.max(job.chargedMs, ms);
  }

  /** Reports once, and only to requests that still wait. */
  #fail(entry: Entry, error: MillraceError): void {
    const { requestId } = entry;
    if (this.#entries.get(requestId) === entry) this.#events.push({ kind: "failed", requestId, error });
    this.close(requestId);
  }

  /** Without this memory, a client that repeats a failed request would end another thread. */
  #remember(key: string, error: MillraceError): void {
    this.#culprits.set(key, { error, atMs: performance.now() });
  }

  #count(more: Partial<LaneCounts>): void {
    this.#counts = { ...this.#counts, ...more };
  }
}

const runningMs = ({ startedMs }: Job): number => (startedMs === undefined ? 0 : performance.now() - startedMs);

function errorOf({ problem, record, isOurs }: FromGrammarThread & { readonly kind: "failed" }): MillraceError {
  if (record !== undefined) return errorFromRecord(record);
  return isOurs ? failure(problem) : refusal(problem);
}

const failure = (problem: string): MillraceError => new MillraceError("grammar_failed", problem);

function refusal(problem: string): MillraceError {
  return new MillraceError("invalid_grammar", `expected a grammar that can be compiled, got: ${problem}`);
}

const secondsOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

function overBudget(pauseMs: number): MillraceError {
  const retryAfterSeconds = secondsOf(pauseMs);
  return new MillraceError(
    "grammar_budget",
    `expected a key that has time left for compiling grammars, got one that used it up; ${retryAfterSeconds} s until it has some`,
    { retryAfterSeconds, hint: "Send grammars that were compiled before, or smaller ones." },
  );
}

function busy(): MillraceError {
  return new MillraceError(
    "grammar_queue",
    `expected a key to have its turn to compile a grammar within ${MOST_WAIT_MS / 1000} s, got none`,
    {
      retryAfterSeconds: secondsOf(MOST_WAIT_MS / 3),
      hint: "Others' grammars take long to compile: send it again later.",
    },
  );
}
