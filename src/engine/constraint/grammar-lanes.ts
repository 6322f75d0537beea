/**
 * Compiling takes as long as it takes, and masks must not wait for it, so there are three threads by what they do: one compiles; one computes the masks of
 * grammars that were compiled quickly, which it compiles once more where it has others to serve; one does both for grammars that take long. A thread whose
 * place is wanted and that has nobody to serve changes places with the one that compiled, so that mostly nothing is compiled twice. Each starts when it is needed;
 * a spare one takes the place of a thread that is ended at its work, since a start takes as long as some compile.
 */
import { createHash } from "node:crypto";
import { errorFromRecord, MillraceError } from "../../core/errors.js";
import { CompileOrder } from "./compile-order.js";
import { GrammarService, type LostThread } from "./grammar-service.js";
import type { MaskMemory, MaskShape } from "./mask-memory.js";
import type { ComputeMasks, FromGrammarThread } from "./messages.js";
import { MAX_CACHED_GRAMMARS, RecentMap } from "./recent-map.js";

/** What compiles within it may hold up the masks of others, once. */
const QUICK_MS = 250;
/** What compiles within this may do so too, once, where it would have to wait for others otherwise. */
const MOST_BESIDE_MS = 1000;
/** A compile may take so long before it makes room for those that others wait for. */
const SLICE_MS = 300;
/** What takes so long will want another place. */
const WARM_MS = 100;
/** No key waits longer for a turn to have something compiled. */
const MOST_WAIT_MS = 30_000;
/** A grammar that failed is not tried again for so long; a busy machine may have been the reason. */
const CULPRIT_MS = 10 * 60_000;
const MAX_REMEMBERED = 1024;

/** A request that is to be held to a grammar. */
interface Opening {
  readonly requestId: number;
  readonly tenant: string;
  readonly recipe: string;
  readonly stopTokenIds: readonly number[];
  /** What it has written so far. */
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
  /** Its recipe's hash. */
  readonly key: string;
  /** Where it is open, or is to be. */
  lane: Lane | undefined;
  isOpened: boolean;
  /** Its grammar has been seen to take long. */
  isSlow: boolean;
}

type Role = "compile" | "quick" | "slow";

interface Lane {
  readonly service: GrammarService;
  readonly entries: Set<Entry>;
  /** What it compiles at present. */
  job: Job | undefined;
  /** Keys of the grammars that its thread keeps compiled: a map of the same size, set in the same order, so that both forget the same ones. */
  readonly known: RecentMap<true>;
}

interface Job {
  readonly entry: Entry;
  /** When the thread was first seen at it. */
  startedMs: number | undefined;
  /** Of its time, what its tenant has been charged. */
  chargedMs: number;
}

export class GrammarLanes {
  /** All threads' word that there is something to look at. */
  readonly #news = new Int32Array(new SharedArrayBuffer(4));
  readonly #lanes: Record<Role, Lane>;
  /** Started while the compiling thread may have to be ended. */
  #spare: Lane;
  readonly #entries = new Map<number, Entry>();
  readonly #order: CompileOrder<Entry>;
  /** By key: how long compiling took. */
  readonly #times = new RecentMap<number>(MAX_REMEMBERED);
  /** By key: grammars that ended their thread, and when that was. */
  readonly #culprits = new RecentMap<{ readonly error: MillraceError; readonly atMs: number }>(MAX_REMEMBERED);
  #events: LaneEvent[] = [];
  #counts: LaneCounts = { numCompiled: 0, numCacheHits: 0, compileMs: 0, numThreadsReplaced: 0 };

  /** @param timeoutMs the longest that one grammar, or one position's masks, may take */
  constructor(modelPath: string, shape: MaskShape, timeoutMs: number) {
    const lane = (): Lane => ({
      service: new GrammarService(modelPath, shape, timeoutMs, this.#news),
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

  get news(): number {
    return Atomics.load(this.#news, 0);
  }

  /** Returns when there is news after `seen`, or the time is over. */
  waitForNews(seen: number, timeoutMs: number): void {
    Atomics.wait(this.#news, 0, seen, timeoutMs);
  }

  /** Some thread is at work. */
  get isBusy(): boolean {
    return this.#all.some(({ service }) => service.isBusy);
  }

  /** Whether a thread is at work for the request. */
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

  /** Where the request's masks are. */
  memoryOf(requestId: number): MaskMemory | undefined {
    return this.#entries.get(requestId)?.lane?.service.memory;
  }

  look(): readonly LaneEvent[] {
    for (const lane of this.#all) {
      const { messages, lost } = lane.service.look();
      for (const message of messages) this.#take(lane, message);
      if (lost !== undefined) this.#replace(lane, lost);
    }
    const nowMs = performance.now();
    this.#makeRoom(nowMs);
    for (const entry of this.#order.takeStarved(MOST_WAIT_MS, nowMs)) this.#fail(entry, busy());
    this.#dispatch();
    // Behind the dispatch, which sends what was compiled meanwhile whatever the budget.
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

  /** Where requests of this grammar can be opened at once. */
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
    // Also where the request has left: the thread keeps its grammar all the same.
    if (message.kind === "opened") lane.known.set(message.key, true);
    const job = lane.job?.entry.requestId === requestId ? this.#endJob(lane) : undefined;
    const entry = this.#entries.get(requestId) ?? job?.entry;
    if (entry === undefined) return;
    if (message.kind === "failed") {
      if (job !== undefined) this.#chargeUpTo(job, runningMs(job));
      const error = errorOf(message);
      // What did not break the thread depends on the request's other terms, too.
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

  /** The grammar is compiled where nothing stays. */
  #settle(entry: Entry, lane: Lane): void {
    const isFree = ({ entries, job }: Lane) => entries.size === 0 && job === undefined;
    const { quick, slow } = this.#lanes;
    const isSlow = this.#isSlow(entry.key);
    const tookMs = this.#times.get(entry.key) ?? 0;
    // Where others keep the place for what takes long, what takes not too long is not to wait for them.
    const isElsewhere = isSlow && !isFree(slow) && (isFree(quick) || tookMs < MOST_BESIDE_MS);
    const role = isSlow && !isElsewhere ? "slow" : "quick";
    const home = this.#lanes[role];
    if (isFree(home)) {
      this.#lanes[role] = lane;
      this.#lanes.compile = home;
      // The next grammar is not to wait for a thread to start.
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

  /** What takes long makes room for what others wait for: it goes on in the place for such, or begins again there later. */
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
    // One of the two will compile next.
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

  /** Whoever's work ended the thread fails; the others go on with a new one. */
  #replace(lane: Lane, { requestId, hasWorked, problem }: LostThread): void {
    this.#count({ numThreadsReplaced: this.#counts.numThreadsReplaced + 1 });
    const job = this.#endJob(lane);
    const entries = [...lane.entries];
    lane.entries.clear();
    lane.known.clear();
    if (job !== undefined) this.#chargeUpTo(job, runningMs(job));
    if (!hasWorked) {
      // The next thread would not start either.
      const waiting = this.#order.takeWhere(() => true);
      for (const entry of [...entries, ...waiting]) this.#fail(entry, failure(problem));
      return;
    }
    // Whoever was cancelled meanwhile is in neither place, and nobody fails in their stead.
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

  /** Once only, and not where nobody waits any more. */
  #fail(entry: Entry, error: MillraceError): void {
    const { requestId } = entry;
    if (this.#entries.get(requestId) === entry) this.#events.push({ kind: "failed", requestId, error });
    this.close(requestId);
  }

  /** Asked for again, by a client that repeats what failed, it would cost a thread once more. */
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
