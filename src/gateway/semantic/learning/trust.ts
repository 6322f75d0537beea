/**
 * The stage that the judged hits of one model allow: only shadow at first, service when the bound of errors is met, and
 * an end of service when audits contradict it. All bounds hold at 95 %, one-sided, for hits like the judged ones.
 */
import { AcceptanceCurve, type Sample } from "./acceptance-curve.js";
import { lowerBound, upperBound } from "./clopper-pearson.js";

/**
 * shadow: a hit that was not served; audit: a hit that would have been served; report: a client called the answer
 * wrong.
 */
export type JudgedIn = "shadow" | "audit" | "report";

export interface Judgement extends Sample {
  /** Kind of question and language: each has a curve of its own, once it has errors to learn from. */
  readonly promptClass: string;
  readonly judgedIn: JudgedIn;
}

interface TrustRules {
  /** Share of wrong answers among hits that the operator accepts. */
  readonly maxError: number;
  /** Judged hits before the first one is served. */
  readonly minJudged: number;
}

export interface TrustSummary {
  readonly judged: number;
  readonly wrong: number;
  /** Upper bound of the share of wrong ones. */
  readonly upperBound: number;
  readonly audited: number;
  readonly auditedWrong: number;
  readonly auditLowerBound: number;
  readonly isDisabled: boolean;
  readonly isEarned: boolean;
}

/** Older judgements concern other traffic. */
export const MAX_JUDGEMENTS = 5000;
/** A class needs this many judgements for a curve of its own; with fewer, it uses that of all classes together. */
const MIN_OF_CLASS = 100;

export class Trust {
  readonly #judgements: Judgement[] = [];
  readonly #curves = new Map<string, AcceptanceCurve>();
  #summary: TrustSummary | undefined;
  #isDisabled: boolean;

  /** @param judgements earlier judgements, the oldest first */
  constructor(
    private readonly rules: TrustRules,
    judgements: readonly Judgement[] = [],
    isDisabled = false,
  ) {
    this.#isDisabled = isDisabled;
    for (const judgement of judgements) this.#keep(judgement);
  }

  /** @returns whether this judgement ended the service */
  add(judgement: Judgement): boolean {
    this.#keep(judgement);
    if (this.#isDisabled || judgement.isSame) return false;
    const isBroken = this.summary().auditLowerBound > this.rules.maxError;
    if (isBroken) {
      this.#isDisabled = true;
      this.#summary = undefined;
    }
    return isBroken;
  }

  /** Whether a hit of this class and similarity may be served. */
  allows(promptClass: string, similarity: number): boolean {
    const { isDisabled, isEarned } = this.summary();
    return !isDisabled && isEarned && this.#curveOf(promptClass).worstCase(similarity) <= this.rules.maxError;
  }

  summary(): TrustSummary {
    this.#summary ??= this.#summarize();
    return this.#summary;
  }

  #summarize(): TrustSummary {
    const audits = this.#judgements.filter(({ judgedIn }) => judgedIn !== "shadow");
    const count = (all: readonly Judgement[]) => all.filter(({ isSame }) => !isSame).length;
    const [judged, wrong] = [this.#judgements.length, count(this.#judgements)];
    const [audited, auditedWrong] = [audits.length, count(audits)];
    const bound = upperBound(wrong, judged);
    return {
      judged,
      wrong,
      upperBound: bound,
      audited,
      auditedWrong,
      auditLowerBound: lowerBound(auditedWrong, audited),
      isDisabled: this.#isDisabled,
      isEarned: judged >= this.rules.minJudged && bound <= this.rules.maxError,
    };
  }

  #keep(judgement: Judgement): void {
    this.#judgements.push(judgement);
    if (this.#judgements.length > MAX_JUDGEMENTS) this.#judgements.shift();
    this.#summary = undefined;
    this.#curves.clear();
  }

  #curveOf(promptClass: string): AcceptanceCurve {
    const own = this.#judgements.filter((judgement) => judgement.promptClass === promptClass);
    const name = own.length >= MIN_OF_CLASS && own.some(({ isSame }) => !isSame) ? promptClass : "";
    let curve = this.#curves.get(name);
    if (curve === undefined) {
      curve = new AcceptanceCurve(name === "" ? this.#judgements : own);
      this.#curves.set(name, curve);
    }
    return curve;
  }
}
