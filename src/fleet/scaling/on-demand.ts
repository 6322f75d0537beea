/**
 * Which models are in memory: a pure decision about loading what is asked for and making room for it, least recently used first. Requests for a
 * model wait in order of their models' oldest request, so that nobody starves; a model that was loaded stays long enough for the load to pay, so
 * that two models with room for one are served in turns of many requests each, and never swapped per request.
 */

export interface ModelResidence {
  readonly name: string;
  /** draining: takes no more requests, finishes the running ones, then it is unloaded. */
  readonly state: "unloaded" | "loading" | "loaded" | "draining";
  /** All its instances: measured when it last ran, or estimated. */
  readonly numBytes: number;
  /** Never unloaded. */
  readonly isPinned: boolean;
  /** Requests that wait for it, and since when the oldest does. */
  readonly waiting: number;
  readonly waitingSinceMs: number;
  readonly inFlight: number;
  /** When a request last came or ended. */
  readonly lastUsedMs: number;
  readonly loadedAtMs: number;
  /** How long a load takes: measured when it was last loaded. */
  readonly loadMs: number;
}

export interface ResidenceRules {
  /** For all models together; Infinity: none. */
  readonly budgetBytes: number;
  /** At most this share of the time may go into loading: a model in use stays at least its load time divided by this. */
  readonly loadShare: number;
  readonly minStayMs: number;
  readonly maxStayMs: number;
}

export const DEFAULT_RESIDENCE = { loadShare: 0.2, minStayMs: 10_000, maxStayMs: 60_000 } as const;

interface ResidenceDecision {
  readonly load: readonly string[];
  readonly drain: readonly string[];
  /** Asked for, and too large even for an otherwise empty memory. */
  readonly impossible: readonly string[];
}

/** Nobody uses it, for as long as loading it again would take: waiting longer than that costs more than being wrong. */
function isIdle({ waiting, inFlight, lastUsedMs, loadMs }: ModelResidence, nowMs: number, maxStayMs: number): boolean {
  return waiting + inFlight === 0 && nowMs - lastUsedMs >= Math.min(loadMs, maxStayMs);
}

/** The load has paid. */
function hasStayed({ loadedAtMs, loadMs }: ModelResidence, nowMs: number, rules: ResidenceRules): boolean {
  return nowMs - loadedAtMs >= Math.min(rules.maxStayMs, Math.max(rules.minStayMs, loadMs / rules.loadShare));
}

/** Idle models, least recently used first; then those in use, in the order they came, so that turns go round. */
function victims(models: readonly ModelResidence[], nowMs: number, rules: ResidenceRules): readonly ModelResidence[] {
  const loaded = models.filter(({ state, isPinned }) => state === "loaded" && !isPinned);
  const idle = loaded.filter((model) => isIdle(model, nowMs, rules.maxStayMs));
  const busy = loaded.filter((model) => !idle.includes(model) && hasStayed(model, nowMs, rules));
  return [...idle.sort((a, b) => a.lastUsedMs - b.lastUsedMs), ...busy.sort((a, b) => a.loadedAtMs - b.loadedAtMs)];
}

const sum = (models: readonly ModelResidence[]): number => models.reduce((bytes, { numBytes }) => bytes + numBytes, 0);

/** Least recently used first, until the bytes are free; undefined: they cannot be freed now, so nothing is worth unloading. */
function enoughOf(candidates: readonly ModelResidence[], missingBytes: number): readonly ModelResidence[] | undefined {
  const chosen: ModelResidence[] = [];
  for (const candidate of candidates) {
    if (sum(chosen) >= missingBytes) break;
    chosen.push(candidate);
  }
  return sum(chosen) >= missingBytes ? chosen : undefined;
}

/** Asked whenever a request arrives or ends, a model's state changes, and once a second while somebody waits. */
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
      // Only the first in line makes room: whoever came later must not take what is being freed for it.
      const draining = sum(held.filter(({ state }) => state === "draining"));
      const chosen = enoughOf(victims(models, nowMs, rules), model.numBytes - freeBytes - draining);
      return { load, drain: (chosen ?? []).map(({ name }) => name), impossible };
    }
    freeBytes -= model.numBytes;
    load.push(model.name);
  }
  // A measurement may turn out larger than the estimate was.
  const drain = freeBytes < 0 ? (enoughOf(victims(models, nowMs, rules), -freeBytes) ?? []) : [];
  return { load, drain: drain.map(({ name }) => name), impossible };
}

/** Bytes that may be taken without unloading anybody, and without taking what the first in line waits for. */
export function spareBytes(models: readonly ModelResidence[], { budgetBytes }: ResidenceRules): number {
  const isWaitedFor = models.some(({ state, waiting }) => state === "unloaded" && waiting > 0);
  return isWaitedFor ? 0 : budgetBytes - sum(models.filter(({ state }) => state !== "unloaded"));
}
