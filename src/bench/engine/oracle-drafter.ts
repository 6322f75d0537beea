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
