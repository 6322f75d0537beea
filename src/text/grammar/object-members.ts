/** The members of a JSON object: declared ones in order, then others, with a bounded total number. */
import { EMPTY, type GrammarWriter, oneOf, repeat, sequence, tooLong } from "./ebnf.js";

export interface Member {
  /** The expression of the member's name and value. */
  readonly pair: string;
  readonly isRequired: boolean;
}

interface MemberCount {
  readonly min: number;
  readonly max: number | undefined;
}

/** The limit for rules; there is one for each pair of a member and the number of members before it. */
const MAX_RULES = 1 << 14;

/**
 * Undefined: no object has the required number of members.
 * @param extra any undeclared member; undefined: none is allowed
 */
export function membersExpression(
  writer: GrammarWriter,
  comma: string,
  members: readonly Member[],
  extra: string | undefined,
  count: MemberCount,
): string | undefined {
  const most = counted(members, extra, count);
  if (members.length * most > MAX_RULES) throw tooLong();
  // The rest of the object, indexed by the number of members so far.
  let rest = Array.from({ length: most + 1 }, (_, numBefore) => others(comma, extra, numBefore, count));
  for (const { pair, isRequired } of members.toReversed()) {
    const later = rest;
    rest = later.map((without, numBefore) => {
      const after = numBefore === count.max ? undefined : later[Math.min(numBefore + 1, most)];
      const ways = isRequired || without === undefined ? [] : [without];
      if (after !== undefined) ways.unshift(sequence(numBefore === 0 ? EMPTY : comma, pair, after));
      return ways.length === 0 ? undefined : writer.rule(oneOf(ways));
    });
  }
  return rest[0];
}

/**
 * The largest count of members that is tracked. Without bounds it is 1: a comma only depends on whether there is a
 * member before it.
 */
function counted(members: readonly Member[], extra: string | undefined, { min, max }: MemberCount): number {
  const numRequired = members.filter(({ isRequired }) => isRequired).length;
  const least = min > numRequired ? min : 1;
  const isLimited = max !== undefined && (extra !== undefined || max < members.length);
  return isLimited ? Math.max(1, Math.min(max, members.length)) : Math.max(1, Math.min(least, members.length));
}

/** The members after the declared ones. */
function others(comma: string, extra: string | undefined, numBefore: number, count: MemberCount): string | undefined {
  const min = Math.max(0, count.min - numBefore);
  const max = count.max === undefined ? undefined : count.max - numBefore;
  if (max !== undefined && (max < 0 || min > max)) return undefined;
  if (extra === undefined) return min > 0 ? undefined : EMPTY;
  const next = sequence(comma, extra);
  if (numBefore > 0) return repeat(next, min, max);
  const following = repeat(next, Math.max(0, min - 1), max === undefined ? undefined : max - 1);
  return max === 0 ? EMPTY : repeat(sequence(extra, following), min === 0 ? 0 : 1, 1);
}
