/**
 * The semantic cache of one model: finds the stored answer that fits a question, and learns from each new answer
 * whether the stored one would have been right.
 */
import { newCounts, type SemanticCounts, type SemanticStatus } from "./counters.js";
import type { Embedder } from "./embedder.js";
import type { Judge } from "./judge.js";
import { type JudgedIn, Trust } from "./learning/trust.js";
import type { Entries, Entry } from "./store/entries.js";
import type { Judgements } from "./store/judgements.js";
import type { Subject } from "./subject.js";
import { questionOf } from "./text/question.js";
import type { Strictness } from "./vetoes/veto.js";
import { objectionsTo } from "./vetoes/vetoes.js";

interface SemanticSettings {
  readonly mode: "shadow" | "serve";
  readonly strictness: Strictness;
  /** Least cosine of a candidate and the question. */
  readonly minSimilarity: number;
  readonly maxError: number;
  readonly minJudged: number;
  /** Share of the hits that are generated as well. */
  readonly auditRate: number;
  readonly ttlMs: number;
  readonly maxAnswerBytes: number;
  readonly isMultiTurn: boolean;
  /** Longest wait of a request for its vector. */
  readonly embedTimeoutMs: number;
}

interface ModelCacheParts {
  readonly model: string;
  readonly settings: SemanticSettings;
  readonly embedder: Embedder;
  readonly entries: Entries;
  readonly judgements: Judgements;
  readonly judge: Judge;
  /** Called when audits have contradicted the bound. */
  readonly onDisabled: (status: SemanticStatus) => void;
}

/** A stored answer that no veto objects to. */
export interface Hit {
  readonly id: string;
  readonly entry: Entry;
  readonly similarity: number;
}

export interface Lookup {
  /** A unit vector. */
  readonly vector: Float32Array;
  readonly hit: Hit | undefined;
}

/** Stored questions to compare with a new one. */
const NUM_CANDIDATES = 8;
/** Hits whose similarity is remembered, for later reports of wrong answers. */
const MAX_REMEMBERED = 10_000;

interface Served {
  readonly promptClass: string;
  readonly similarity: number;
}

export class ModelCache {
  readonly counts: SemanticCounts = newCounts();
  #trust: Trust;
  readonly #served = new Map<string, Served>();

  constructor(readonly parts: ModelCacheParts) {
    const { settings, judgements } = parts;
    this.#trust = new Trust(settings, judgements.all(), judgements.isDisabled);
  }

  get settings(): SemanticSettings {
    return this.parts.settings;
  }

  /** Whether any hit may be served now. */
  get isServing(): boolean {
    const { isEarned, isDisabled } = this.#trust.summary();
    return this.settings.mode === "serve" && isEarned && !isDisabled;
  }

  allows({ promptClass }: Subject, { similarity }: Hit): boolean {
    return this.isServing && this.#trust.allows(promptClass, similarity);
  }

  /** Rejects if no vector is available. */
  async lookup(subject: Subject, tenant: string): Promise<Lookup> {
    const { embedder, entries, settings } = this.parts;
    const vector = await embedder.vectorOf(subject.question.text);
    this.counts.lookups++;
    const matches = await entries.candidates(
      subject.namespace,
      subject.question,
      vector,
      NUM_CANDIDATES,
      settings.minSimilarity,
    );
    if (matches.length > 0) this.counts.candidates++;
    const context = { strictness: settings.strictness, rarity: entries.rarity };
    let isFirst = true;
    for (const { id, similarity } of matches) {
      const entry = entries.get(id, tenant);
      if (entry === undefined) continue;
      const objections = objectionsTo(subject.question, questionOf(entry.question), context);
      if (isFirst) for (const name of objections) this.#object(name);
      isFirst = false;
      if (objections.length > 0) continue;
      this.counts.agreed++;
      return { vector, hit: { id, entry, similarity } };
    }
    return { vector, hit: undefined };
  }

  /** Notes that a hit is served. */
  noteServed({ promptClass }: Subject, { id, similarity }: Hit): void {
    this.counts.served++;
    this.#served.delete(id);
    this.#served.set(id, { promptClass, similarity });
    const [oldest] = this.#served.keys();
    if (this.#served.size > MAX_REMEMBERED && oldest !== undefined) this.#served.delete(oldest);
  }

  /**
   * Judges the hit by the answer that was generated beside it, or stores the answer if there was no hit. A stored
   * answer that was judged wrong goes, and the new one takes its place.
   */
  async learn(subject: Subject, fresh: Entry, lookup: Lookup, judgedIn: JudgedIn): Promise<void> {
    const { hit } = lookup;
    if (hit !== undefined) {
      const isSame = await this.#judge(subject, fresh, hit, judgedIn);
      if (isSame !== false) return;
      await this.parts.entries.delete(hit.id);
    }
    const { namespace } = subject;
    await this.parts.entries.add({ ...fresh, namespace, vector: lookup.vector });
    this.counts.stored++;
  }

  /** Handles a client's report that the answer was wrong. @returns whether the tenant has such an answer */
  async reportWrong(id: string, tenant: string): Promise<boolean> {
    const isGone = await this.parts.entries.delete(id, tenant);
    if (!isGone) return false;
    this.counts.reported++;
    const served = this.#served.get(id);
    this.#served.delete(id);
    if (served !== undefined) await this.#record({ ...served, isSame: false, judgedIn: "report" });
    return true;
  }

  async reset(): Promise<void> {
    await this.parts.judgements.reset();
    this.#trust = new Trust(this.settings);
  }

  status(): SemanticStatus {
    const { model, entries } = this.parts;
    const trust = this.#trust.summary();
    const state = trust.isDisabled ? "disabled" : this.isServing ? "serve" : "shadow";
    const { mode, minJudged, maxError } = this.settings;
    const size = { entries: entries.size, bytes: entries.numBytes };
    return { model, state, mode, minJudged, maxError, ...size, counts: this.counts, trust };
  }

  async #judge(subject: Subject, fresh: Entry, hit: Hit, judgedIn: JudgedIn): Promise<boolean | undefined> {
    const { question, text: answer } = fresh;
    const { question: storedQuestion, text: storedAnswer } = hit.entry;
    const isSame = await this.parts.judge({ question, storedQuestion, answer, storedAnswer });
    if (isSame === undefined) this.counts.unjudged++;
    else {
      this.counts[isSame ? "judgedSame" : "judgedDifferent"]++;
      await this.#record({ promptClass: subject.promptClass, similarity: hit.similarity, isSame, judgedIn });
    }
    return isSame;
  }

  async #record(judgement: Served & { readonly isSame: boolean; readonly judgedIn: JudgedIn }): Promise<void> {
    const isBroken = this.#trust.add(judgement);
    await this.parts.judgements.add(judgement);
    if (!isBroken) return;
    await this.parts.judgements.disable();
    this.parts.onDisabled(this.status());
  }

  #object(name: string): void {
    this.counts.objections[name] = (this.counts.objections[name] ?? 0) + 1;
  }
}
