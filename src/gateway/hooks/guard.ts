/** A guardrail: its patterns, the texts it reads, and its action. This file does not know requests or answers. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import type { Checker } from "./checker.js";
import { PatternScan } from "./pattern-scan.js";
import type { PatternSet } from "./pattern-set.js";
import { redactTexts, TextRedactor } from "./redactor.js";
import type { Stage } from "./stage.js";
import type { FoundTexts } from "./texts.js";

export const ACTIONS = ["refuse", "redact", "flag"] as const;
type Action = (typeof ACTIONS)[number];

export interface Guard {
  readonly name: string;
  readonly stages: ReadonlySet<Stage>;
  readonly appliesTo: (model: string, path: string) => boolean;
  readonly action: Action;
  /** Absent: only the checker reads the texts. */
  readonly patterns: PatternSet | undefined;
  /** Absent: only the patterns do. */
  readonly checker: Checker | undefined;
}

/** Findings of guardrails in one request and its answer. */
export class Findings {
  readonly #counts = new Map<string, number>();

  add(guard: Guard, stage: Stage, what: string): void {
    const key = `${guard.name}: ${guard.action} ${what} in the ${stage}`;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  /** @example "personal-data: redact email in the request (2)" */
  toString(): string {
    return [...this.#counts].map(([key, count]) => `${key} (${count})`).join("; ");
  }
}

export function refusal({ name }: Guard, stage: Stage, what: string): MillraceError {
  const message = `expected ${stage === "request" ? "a request" : "an answer"} without ${what}, got one with it`;
  return new MillraceError("guardrail_refused", message, { hint: `the guardrail ${name} of the gateway refuses it` });
}

/** About a millisecond for short texts. */
const GROUPS_PER_TURN = 64;

/**
 * Applies the patterns of guardrails to texts, one guardrail after the other. The texts of one list are read as one
 * text. Throws guardrail_refused.
 */
export async function guardTexts(
  guards: readonly Guard[],
  stage: Stage,
  found: FoundTexts,
  findings: Findings,
): Promise<readonly string[]> {
  const clean: string[] = [];
  for (const [i, indices] of found.groups.entries()) {
    // Long texts are read in turns, and there may be many short ones.
    if (i % GROUPS_PER_TURN === GROUPS_PER_TURN - 1) await nextTurn();
    let current: readonly string[] = indices.map((index) => found.texts[index]!);
    for (const guard of guards) {
      if (guard.patterns === undefined) continue;
      const redacted = await redactTexts(guard.patterns, current, (what) => note(guard, stage, what, findings));
      if (guard.action === "redact") current = redacted;
    }
    indices.forEach((index, at) => {
      clean[index] = current[at]!;
    });
  }
  return clean;
}

function note(guard: Guard, stage: Stage, what: string, findings: Findings): void {
  findings.add(guard, stage, what);
  if (guard.action === "refuse") throw refusal(guard, stage, what);
}

/** The same for a text in pieces. */
export class GuardedText {
  readonly #steps: readonly { push(text: string): string; end(): string }[];

  constructor(guards: readonly Guard[], stage: Stage, findings: Findings) {
    this.#steps = guards.flatMap((guard) => {
      const { patterns, action } = guard;
      if (patterns === undefined) return [];
      const found = (what: string) => note(guard, stage, what, findings);
      return [action === "flag" ? new Watched(patterns, found) : new TextRedactor(patterns, found)];
    });
  }

  /** @returns the text that may be sent now */
  push(text: string): string {
    return this.#steps.reduce((current, step) => (current === "" ? "" : step.push(current)), text);
  }

  end(): string {
    return this.#steps.reduce((current, step) => (current === "" ? "" : step.push(current)) + step.end(), "");
  }
}

/** Finds matches, without changing or holding back the text. */
class Watched {
  readonly #scan: PatternScan;

  constructor(
    patterns: PatternSet,
    private readonly found: (name: string) => void,
  ) {
    this.#scan = new PatternScan(patterns);
  }

  push(text: string): string {
    this.#scan.push(text);
    this.#report();
    return text;
  }

  end(): string {
    this.#scan.end();
    this.#report();
    return "";
  }

  #report(): void {
    for (const { name, isContinued } of this.#scan.take(this.#scan.settledUntil)) if (!isContinued) this.found(name);
  }
}
