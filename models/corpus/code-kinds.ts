/** All kinds of small functions, and arguments to call them with. */
import { listKinds } from "./code-list-kinds.js";
import { numberKinds } from "./code-number-kinds.js";
import { textKinds } from "./code-text-kinds.js";
import type { Argument, Constants, FunctionKind } from "./function-kind.js";
import type { Random } from "./random.js";
import { nouns } from "./words.js";

export const functionKinds: readonly FunctionKind[] = [...numberKinds, ...listKinds, ...textKinds];

/** Arguments that show what a function does: some hold its constants. */
export function drawArgument(random: Random, type: string, { n, t, c }: Constants): Argument {
  const number = (): number => (random.isChance(0.15) ? n : random.int(0, random.pick([5, 20, 60])));
  const word = (): string =>
    random.weighted<() => string>([
      [5, () => random.pick(nouns)],
      [2, () => t],
      [2, () => c + random.pick(nouns)],
      [1, () => "level"],
    ])();
  if (type === "number") return number();
  if (type === "number[]") return Array.from({ length: random.int(1, 6) }, number);
  if (type === "string[]") return Array.from({ length: random.int(1, 5) }, word);
  return random.pick([word(), `${word()} ${word()}`, word() + t, t + word()]);
}
