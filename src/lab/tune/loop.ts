/**
 * The tuning loop: measure, name the bottleneck, try the change of least effort beside the current configuration, keep
 * it or roll it back, until no change is worth its trial or the budget is spent. The loop decides; a bench measures.
 */
import type { Cost } from "../../bench/measure/cost.js";
import { type Estimate, pairedRatio } from "../../bench/measure/intervals.js";
import { MillraceError } from "../../core/errors.js";
import type { Comparison } from "../../quality/compare.js";
import { type Bottleneck, type Finding, findingsOf, type Objective } from "./bottleneck.js";
import { type Configuration, edited, keyOf } from "./configuration.js";
import type { Evidence } from "./evidence.js";
import { type Alternatives, type Proposal, proposalsFor } from "./proposals.js";

/** One configuration's runs, with a value for each round. */
export interface Measured {
  /** The objective, larger is better; empty if the server did not start or answer. */
  readonly values: readonly number[];
  /** Mean share of requests within the SLO; undefined without an SLO. */
  readonly attainment: number | undefined;
  /** Costs of each round in dollars; absent if the machine's price is unknown. */
  readonly costs?: readonly Cost[] | undefined;
  readonly peakMemoryBytes: number | undefined;
  /** undefined if nothing was measured */
  readonly evidence: Evidence | undefined;
  readonly problem?: string;
}

export interface Bench {
  /** Measures configurations alternately, in rounds; values of equal index belong to the same round. */
  measure(configurations: readonly Configuration[], numRounds: number): Promise<readonly Measured[]>;
  /** Compares answers of this configuration with those of the first one; undefined if there are no questions. */
  judge(configuration: Configuration): Promise<Comparison | undefined>;
}

export interface TuneSettings {
  readonly objective: Objective;
  readonly start: Configuration;
  readonly maxTrials: number;
  /** Time on the clock of `performance.now` after which no trial begins. */
  readonly deadlineMs: number;
  /** Least share of requests within the SLO after a change, unless it was lower before. */
  readonly minAttainment: number;
  readonly maxMemoryBytes?: number | undefined;
  readonly alternatives: Alternatives;
  readonly numRounds: number;
}

/** Runs of the first configuration before any change, with which later tunings of the same load are compared. */
export interface Baseline {
  /** The objective, larger is better, one value per round. */
  readonly values: readonly number[];
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** Absent if the machine's price is unknown. */
  readonly costs?: readonly Cost[] | undefined;
}

/** Costs of each round, in dollars. */
interface CostsOfBoth {
  readonly before: readonly Cost[];
  /** undefined if the first configuration stays */
  readonly after?: readonly Cost[] | undefined;
}

export type Outcome = "kept" | "rolled back";

export interface Trial {
  readonly proposal: Proposal;
  readonly finding: Finding;
  readonly outcome: Outcome;
  /** The reason for keeping the change, or for rolling it back. */
  readonly reason: string;
  /** Objective with the change ÷ without, by paired rounds. */
  readonly measured?: Estimate | undefined;
  readonly quality?: Pick<Comparison, "verdict" | "overall" | "numMoreItems"> | undefined;
  readonly configuration: Configuration;
}

export interface Tuning {
  readonly start: Configuration;
  readonly best: Configuration;
  readonly trials: readonly Trial[];
  /** The bottleneck before the first change and after the last. */
  readonly first: Finding;
  readonly last: Finding;
  readonly evidence: Evidence;
  /** undefined if the tuning resumed from a journal without one */
  readonly baseline?: Baseline | undefined;
  /** Best ÷ start, measured alternately at the end; undefined if no change was kept. */
  readonly total?: Estimate | undefined;
  /** Costs of the first and the best configuration in the same rounds; undefined if the price is unknown. */
  readonly costs?: CostsOfBoth | undefined;
  /** The reason why the loop ended. */
  readonly end: string;
}

export interface TuneEvents {
  onFinding(finding: Finding, evidence: Evidence, baseline: Baseline | undefined): void;
  onTrial(proposal: Proposal, number: number): void;
  onOutcome(trial: Trial, best: Configuration): void;
}

/** An interrupted tuning, whose trials are not repeated. */
export interface Journal {
  readonly trials: readonly Trial[];
  /** The finding before the first change; undefined for a new tuning. */
  readonly first?: Finding | undefined;
  readonly baseline?: Baseline | undefined;
}

/** Rounds of a closer look, in addition to those of a first one. */
const MORE_ROUNDS = 2;
/** Least gain for a closer look. */
const PROMISING = 1.015;
const ATTAINMENT_SLACK = 0.01;
/** Bottlenecks whose limit is a single flag. If changing this flag alone gains nothing, the limit does not bind. */
const LIMITS: Readonly<Partial<Record<Bottleneck, string>>> = {
  seats: "max-num-seqs",
  "kv memory": "kv-cache-memory-bytes",
  threads: "threads",
};

const isRefutation = ({ outcome, reason, proposal }: Trial): boolean =>
  outcome === "rolled back" &&
  reason === NO_GAIN &&
  Object.keys(proposal.edit).every((flag) => flag === LIMITS[proposal.bottleneck]);

/** The trials so far, and the changes that they rule out. */
class Progress {
  readonly trials: Trial[] = [];
  readonly #tried: Set<string>;
  /** Bottlenecks that do not bind, by trials since the last kept change. */
  readonly #refuted = new Set<Bottleneck>();
  /** Names of changes that were tried in any configuration, and of those that surely harmed one. */
  readonly #triedEdits = new Set<string>();
  readonly #harmful = new Set<string>();

  /** @param best the first configuration */
  constructor(public best: Configuration) {
    this.#tried = new Set([keyOf(best)]);
  }

  settle(trial: Trial): void {
    const { proposal, configuration, measured, outcome } = trial;
    this.trials.push(trial);
    this.#tried.add(keyOf(configuration));
    this.#triedEdits.add(proposal.name);
    if ((measured?.high ?? 1) < 1) this.#harmful.add(proposal.name);
    if (outcome === "kept") {
      this.best = configuration;
      this.#refuted.clear();
    } else if (isRefutation(trial)) this.#refuted.add(proposal.bottleneck);
  }

  findings(evidence: Evidence, objective: Objective): Finding[] {
    return findingsOf(evidence, objective).filter(({ bottleneck }) => !this.#refuted.has(bottleneck));
  }

  /** The change to try next; undefined: none is worth a trial. */
  next(findings: readonly Finding[], evidence: Evidence, alternatives: Alternatives): Proposal | undefined {
    const proposals = proposalsFor(findings, this.best, evidence, alternatives).filter(
      (each) => !this.#tried.has(keyOf(edited(this.best, each.edit))) && !this.#harmful.has(each.name),
    );
    // A change that gained nothing may gain after another one was kept, but an untried change is likelier to.
    return proposals.find((each) => !this.#triedEdits.has(each.name)) ?? proposals[0];
  }
}

/** Throws peer_failed if the first configuration cannot be measured. */
export async function tune(
  settings: TuneSettings,
  bench: Bench,
  events: TuneEvents,
  journal: Journal,
  signal: AbortSignal,
): Promise<Tuning> {
  const { start, objective, alternatives } = settings;
  const progress = new Progress(edited(start, {}));
  const { trials } = progress;
  for (const trial of journal.trials) progress.settle(trial);
  const [present] = await bench.measure([progress.best], settings.numRounds);
  let evidence = evidenceOf(present!);
  const isOfStart = keyOf(progress.best) === keyOf(start);
  const baseline = journal.baseline ?? (isOfStart ? baselineOf(present!, evidence) : undefined);
  let findings = progress.findings(evidence, objective);
  const first = journal.first ?? findings[0]!;
  let end = "the budget of trials is spent";
  while (!signal.aborted) {
    events.onFinding(findings[0]!, evidence, baseline);
    const proposal = progress.next(findings, evidence, alternatives);
    if (proposal === undefined) {
      end = "no further change is worth its trial";
      break;
    }
    if (trials.length >= settings.maxTrials) break;
    if (performance.now() >= settings.deadlineMs) {
      end = "the budget of time is spent";
      break;
    }
    events.onTrial(proposal, trials.length + 1);
    const { best } = progress;
    const candidate = edited(best, proposal.edit);
    const finding = findings.find(({ bottleneck }) => bottleneck === proposal.bottleneck)!;
    const result = await untilAborted(tryChange(best, candidate, proposal, settings, bench), signal);
    if (result === undefined) break;
    const trial: Trial = { proposal, finding, configuration: candidate, ...result.decision };
    progress.settle(trial);
    events.onOutcome(trial, progress.best);
    evidence = (trial.outcome === "kept" ? result.candidate : result.present)?.evidence ?? evidence;
    findings = progress.findings(evidence, objective);
  }
  if (signal.aborted) end = "stopped";
  const figures = { first, last: findings[0]!, evidence, baseline };
  const { best } = progress;
  const ownCosts = baseline?.costs && { before: baseline.costs };
  if (keyOf(best) === keyOf(start) || signal.aborted) return { start, best, trials, ...figures, costs: ownCosts, end };
  const again = await untilAborted(measuredAgain(settings, best, bench), signal);
  const total = again && gainOf(again);
  const costs = again?.[1].costs ? { before: again[1].costs, after: again[0].costs } : ownCosts;
  if (signal.aborted || (total?.low ?? 0) > 1) return { start, best, trials, ...figures, total, costs, end };
  const problem = total === undefined ? "could not be measured again" : "showed no certain gain when measured again";
  end = `all changes together ${problem}, and the first configuration stays`;
  return { start, best: start, trials, ...figures, total, costs: costs && { before: costs.before }, end };
}

const baselineOf = ({ values, costs }: Measured, { ttftMs, tpotMs }: Evidence): Baseline => ({
  values,
  ttftMs,
  tpotMs,
  costs,
});

export interface Diagnosis {
  /** The bottleneck first. */
  readonly findings: readonly Finding[];
  readonly evidence: Evidence;
  readonly baseline: Baseline;
  /** In the order of trial. */
  readonly proposals: readonly Proposal[];
}

/** Measures one configuration, and lists the changes to try. Throws peer_failed if it cannot be measured. */
export async function diagnose(
  {
    start,
    objective,
    alternatives,
    numRounds,
  }: Pick<TuneSettings, "start" | "objective" | "alternatives" | "numRounds">,
  bench: Pick<Bench, "measure">,
): Promise<Diagnosis> {
  const [present] = await bench.measure([start], numRounds);
  const evidence = evidenceOf(present!);
  const findings = findingsOf(evidence, objective);
  // Flags for an engine without known figures would be guesses.
  const proposals = evidence.isServerKnown ? proposalsFor(findings, start, evidence, alternatives) : [];
  return { findings, evidence, baseline: baselineOf(present!, evidence), proposals };
}

function evidenceOf({ evidence, problem }: Measured): Evidence {
  if (evidence !== undefined) return evidence;
  throw new MillraceError("peer_failed", `expected the first configuration to be measured, got: ${problem}`, {
    hint: "leave the load generator a core: fewer --threads, fewer clients, a quiet machine, or --poll",
  });
}

/** @returns undefined once the signal is aborted, because a server that stops during its run yields no figures */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  try {
    const result = await work;
    return signal.aborted ? undefined : result;
  } catch (thrown) {
    if (signal.aborted) return undefined;
    throw thrown;
  }
}

/** The best configuration and the first one, measured in alternating rounds. */
type BestAndFirst = readonly [best: Measured, first: Measured];

const gainOf = ([after, before]: BestAndFirst): Estimate | undefined =>
  pairedRatio(...inPairs(after.values, before.values));

/** Measures all changes together again, because a single trial may have been kept by lucky rounds. */
async function measuredAgain(settings: TuneSettings, best: Configuration, bench: Bench): Promise<BestAndFirst> {
  const look = async (): Promise<BestAndFirst> =>
    (await bench.measure([best, settings.start], settings.numRounds + MORE_ROUNDS)) as [Measured, Measured];
  const both = await look();
  if (!isInDoubt(gainOf(both))) return both;
  const again = await look();
  return [joined(both[0], again[0]), joined(both[1], again[1])];
}

/** Whether the gain is uncertain and worth a closer look. */
function isInDoubt(ratio: Estimate | undefined): boolean {
  return ratio !== undefined && (ratio.low ?? 0) <= 1 && (ratio.high ?? 2) > 1 && ratio.value > PROMISING;
}

const NO_GAIN = "no gain beyond the noise";

interface Decision {
  readonly outcome: Outcome;
  readonly reason: string;
  readonly measured?: Estimate | undefined;
  readonly quality?: Trial["quality"];
}

interface Tried {
  readonly decision: Decision;
  readonly candidate?: Measured;
  readonly present?: Measured;
}

async function tryChange(
  best: Configuration,
  candidate: Configuration,
  { isLossy, isExact }: Proposal,
  settings: TuneSettings,
  bench: Bench,
): Promise<Tried> {
  const { numRounds } = settings;
  let [present, changed] = (await bench.measure([best, candidate], numRounds)) as [Measured, Measured];
  if (changed.evidence === undefined) {
    return { decision: { outcome: "rolled back", reason: changed.problem ?? "it did not answer" }, present };
  }
  if (present.evidence === undefined) {
    const reason = `the configuration before it could not be measured: ${present.problem}`;
    return { decision: { outcome: "rolled back", reason }, candidate: changed };
  }
  const ratioOf = (): Estimate | undefined => pairedRatio(...inPairs(changed.values, present.values));
  let measured = ratioOf();
  if (isInDoubt(measured)) {
    const more = (await bench.measure([best, candidate], numRounds + MORE_ROUNDS)) as [Measured, Measured];
    [present, changed] = [joined(present, more[0]), joined(changed, more[1])];
    measured = ratioOf();
  }
  const rolledBack = (reason: string): Tried => ({
    decision: { outcome: "rolled back", reason, measured },
    candidate: changed,
    present,
  });
  if (measured?.low === undefined || measured.low <= 1) return rolledBack(NO_GAIN);
  const { maxMemoryBytes = Number.POSITIVE_INFINITY } = settings;
  if ((changed.peakMemoryBytes ?? 0) > maxMemoryBytes) return rolledBack("it needs more memory than allowed");
  const floor = Math.min(settings.minAttainment, present.attainment ?? 0) - ATTAINMENT_SLACK;
  if ((changed.attainment ?? 1) < floor) return rolledBack("fewer requests meet the objective's limits");
  if (!isLossy) {
    const reason = isExact ? "faster, same bits" : "faster";
    return { decision: { outcome: "kept", reason, measured }, candidate: changed, present };
  }
  const quality = await bench.judge(candidate);
  if (quality === undefined) {
    const reason = "faster, but it alters answers and there are no items to judge them by";
    return { decision: { outcome: "rolled back", reason, measured }, candidate: changed, present };
  }
  const reasons = {
    passes: "faster, and as good within the margin",
    fails: "it damages the answers beyond the margin",
    undecided: "it is not known whether the answers are as good",
  } as const;
  const outcome = quality.verdict === "passes" ? "kept" : "rolled back";
  return {
    decision: { outcome, reason: reasons[quality.verdict], measured, quality },
    candidate: changed,
    present,
  };
}

/** Rounds in which both were measured. */
function inPairs(a: readonly number[], b: readonly number[]): [readonly number[], readonly number[]] {
  const numPairs = Math.min(a.length, b.length);
  return [a.slice(0, numPairs), b.slice(0, numPairs)];
}

function joined(first: Measured, more: Measured): Measured {
  const values = [...first.values, ...more.values];
  const shareOf = ({ attainment, values: { length } }: Measured): number => (attainment ?? 0) * length;
  const peaks = [first, more].flatMap(({ peakMemoryBytes }) => peakMemoryBytes ?? []);
  return {
    ...more,
    values,
    attainment:
      first.attainment === undefined && more.attainment === undefined
        ? undefined
        : (shareOf(first) + shareOf(more)) / Math.max(1, values.length),
    costs: first.costs && more.costs && [...first.costs, ...more.costs],
    peakMemoryBytes: peaks.length === 0 ? undefined : Math.max(...peaks),
    evidence: more.evidence ?? first.evidence,
  };
}
