/** A drafter that knows the outputs and makes deliberate errors, to measure speculation at a given acceptance. */

import type { Draft, Drafter } from "../../engine/speculative/drafter.js";
import type { Sequence } from "../../engine/step/sequence.js";

/** The probability that the drafter reports for its tokens; the speculator learns the true one. */
const FIRST_CHANCE = 0.85;

export class OracleDrafter implements Drafter {
  readonly name = "oracle";

  /**
   * @param outputOf the tokens that a request, given by its id, will output; undefined: unknown
   * @param acceptance probability that a draft token is right
   * @param random uniform in [0, 1)
   * @param hasAlternatives whether it also proposes two other tokens for the first position, the right one among them
   *   if its own is wrong
   */
  constructor(
    private readonly outputOf: (requestId: number) => readonly number[] | undefined,
    private readonly acceptance: number,
    private readonly random: () => number,
    private readonly hasAlternatives = false,
  ) {}

  propose(sequence: Sequence, maxTokens: number): Draft | undefined {
    const first = sequence.numOutputTokens;
    const right = this.outputOf(sequence.id)?.slice(first, first + maxTokens) ?? [];
    if (right.length === 0) return undefined;
    const tokens = right.map((token) => (this.random() < this.acceptance ? token : token === 0 ? 1 : token - 1));
    const draft = { tokens, chances: tokens.map(() => FIRST_CHANCE) };
    if (!this.hasAlternatives) return draft;
    const [wanted] = right as [number];
    const others = [wanted + (wanted < 2 ? 2 : -2), wanted === tokens[0] ? wanted + (wanted < 3 ? 3 : -3) : wanted];
    const alternatives = this.random() < 0.5 ? others : others.reverse();
    return { ...draft, alternatives: { tokens: alternatives, chances: alternatives.map(() => 1 - FIRST_CHANCE) } };
  }

  forget(): void {}
}
