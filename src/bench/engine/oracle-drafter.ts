/** A drafter that knows the outputs and errs on purpose: what speculation can win at a given acceptance, apart from how well drafts are found. */

import type { Draft, Drafter } from "../../engine/speculative/drafter.js";
import type { Sequence } from "../../engine/step/sequence.js";

/** What it says of its tokens; the speculator learns how often they are right. */
const FIRST_CHANCE = 0.85;

export class OracleDrafter implements Drafter {
  readonly name = "oracle";

  /**
   * @param outputOf the tokens that a request will give, by its id; undefined: not known
   * @param acceptance how likely each drafted token is the right one
   * @param random uniform in [0, 1)
   */
  constructor(
    private readonly outputOf: (requestId: number) => readonly number[] | undefined,
    private readonly acceptance: number,
    private readonly random: () => number,
  ) {}

  propose(sequence: Sequence, maxTokens: number): Draft | undefined {
    const first = sequence.numOutputTokens;
    const right = this.outputOf(sequence.id)?.slice(first, first + maxTokens) ?? [];
    if (right.length === 0) return undefined;
    const tokens = right.map((token) => (this.random() < this.acceptance ? token : token === 0 ? 1 : token - 1));
    return { tokens, chances: tokens.map(() => FIRST_CHANCE) };
  }

  forget(): void {}
}
