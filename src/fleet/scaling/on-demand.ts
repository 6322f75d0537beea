/**
 * Decides which models stay in memory: a pure policy that loads requested models and unloads the least recently used
 * ones to make room. Models load in the order of their oldest request, so none starves. A loaded model stays long
 * enough to justify its load: two models with room for one take turns of many requests each instead of swapping at
 * every request.
 */

export interface ModelResidence {
  readonly name: string;
  /** draining: takes no new requests, finishes the running ones and then unloads. */
  readonly state: "unloaded" | "loading" | "loaded" | "draining";
  /** Memory of all the model's instances: measured in its last run, otherwise estimated. */
  readonly numBytes: number;
  /** The model is never unloaded. */
  readonly isPinned: boolean;
  /** Number of waiting requests for the model, and the time at which the oldest began to wait. */
  readonly waiting: number;
  readonly waitingSinceMs: number;
  readonly inFlight: number;
  /** Time at which a request last arrived or ended. */
  readonly lastUsedMs: number;
  readonly loadedAtMs: number;
  /** Duration of the last load. */
  readonly loadMs: number;
}

export interface ResidenceRules {
  /** Memory for all models together; Infinity: no limit. */
  readonly budgetBytes: number;
  /** Largest share of the time spent loading: a model in use stays for at least its load time divided by this. */
  readonly loadShare: number;
  readonly minStayMs: number;
  readonly maxStayMs: number;
}

export const DEFAULT_RESIDENCE = { loadShare: 0.2, minStayMs: 10_000, maxStayMs: 60_000 } as const;

interface ResidenceDecision {
  readonly load: readonly string[];
  readonly drain: readonly string[];
  /** Requested models that are too large even for an empty memory. */
  readonly impossible: readonly string[];
}

/** Whether the model has been unused for its load time: keeping it longer would cost more than a mistaken reload. */
function isIdle({ waiting, inFlight, lastUsedMs, loadMs }: ModelResidence, nowMs: number, maxStayMs: number): boolean {
  return waiting + inFlight === 0 && nowMs - lastUsedMs >= Math.min(loadMs, maxStayMs);
}

/** Whether the model has stayed long enough to justify its load. */
function hasStayed({ loadedAtMs, loadMs }: ModelResidence, nowMs: number, rules: ResidenceRules): boolean {
  return nowMs - loadedAtMs >= Math.min(rules.maxStayMs, Math.max(rules.minStayMs, loadMs / rules.loadShare));
}

/**
 * Models that may be unloaded: idle ones, least recently used first, then busy ones in their order of loading, so that
 * models take turns.
 */
function victims(models: readonly ModelResidence[], nowMs: number, rules: ResidenceRules): readonly ModelResidence[] {
  const loaded = models.filter(({ state, isPinned }) => state === "loaded" && !isPinned);
  const idle = loaded.filter((model) => isIdle(model, nowMs, rules.maxStayMs));
  const busy = loaded.filter((model) => !idle.includes(model) && hasStayed(model, nowMs, rules));
  return [...idle.sort((a, b) => a.lastUsedMs - b.lastUsedMs), ...busy.sort((a, b) => a.loadedAtMs - b.loadedAtMs)];
}

const sum = (models: readonly ModelResidence[]): number => models.reduce((bytes, { numBytes }) => bytes + numBytes, 0);

/**
 * The first candidates that together free the bytes; undefined if all of them together do not, since unloading a few
 * would be useless.
 */
function enoughOf(candidates: readonly ModelResidence[], missingBytes: number): readonly ModelResidence[] | undefined {
  const chosen: ModelResidence[] = [];
  for (const candidate of candidates) {
    if (sum(chosen) >= missingBytes) break;
    chosen.push(candidate);
  }
  return sum(chosen) >= missingBytes ? chosen : undefined;
}

/**
 * Decides which models to load and unload now. Called once a second, and when a request arrives for a model that is not
 * loaded.
 */
export function decideResidence(
  models: readonly ModelResidence[],
  rules: ResidenceRules,
  nowMs: number,
): ResidenceDecision {
  const held = models.filter(({ state }) => state !== "unloaded");
  const pinnedBytes = sum(models.filter(({ isPinned }) => isPinned));
  const asked = models
    .filter(({ state, waiting }) => state === "unloaded" && waiting > 0)
    .sort((a, b) => a.waitingSinceMs - b.waitingSinceMs);
  const isPossible = ({ numBytes }: ModelResidence): boolean => numBytes <= rules.budgetBytes - pinnedBytes;
  const impossible = asked.filter((model) => !isPossible(model)).map(({ name }) => name);
  let freeBytes = rules.budgetBytes - sum(held);
  const load: string[] = [];
  for (const model of asked.filter(isPossible)) {
    if (model.numBytes > freeBytes) {
      // Only the first model in line makes room: later ones must not take the memory that it frees.
      const draining = sum(held.filter(({ state }) => state === "draining"));
      const chosen = enoughOf(victims(models, nowMs, rules), model.numBytes - freeBytes - draining);
      return { load, drain: (chosen ?? []).map(({ name }) => name), impossible };
    }
    freeBytes -= model.numBytes;
    load.push(model.name);
  }
  // A measured size may exceed its estimate and thus the budget.
  const drain = freeBytes < 0 ? (enoughOf(victims(models, nowMs, rules), -freeBytes) ?? []) : [];
  return { load, drain: drain.map(({ name }) => name), impossible };
}

/** Memory for further instances without unloading a model; none while a model waits for memory. */
export function spareBytes(models: readonly ModelResidence[], { budgetBytes }: ResidenceRules): number {
  const isWaitedFor = models.some(({ state, waiting }) => state === "unloaded" && waiting > 0);
  return isWaitedFor ? 0 : budgetBytes - sum(models.filter(({ state }) => state !== "unloaded"));
}
