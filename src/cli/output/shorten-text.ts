/** Shortened prompts as a table and as JSON. */
import type { Decision, Shortened } from "../../lab/shorten/search.js";
import { sharedContents } from "../../prompts/shorten/candidate.js";
import { type Comparison, points } from "../../quality/compare.js";
import type { EvalTask } from "../../quality/tasks.js";
import { verdictText } from "./eval-text.js";
import { formatTable } from "./format.js";

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
/** A share of 1; null if no tokens were counted, since some servers report none. */
const savedOf = ({ before, after }: Shortened["tokens"]): number | null => (before === 0 ? null : 1 - after / before);

function savingText(tokens: Shortened["tokens"]): string {
  const saved = savedOf(tokens);
  if (saved === null) return "the server counts no prompt tokens";
  return `${tokens.before} prompt tokens become ${tokens.after}, ${percent(saved)} less`;
}

export function shortenedText({ decisions, tokens, confirmation }: Shortened, written: string | undefined): string {
  if (decisions.length === 0) return "no change saves half a percent of the prompts' tokens";
  const header = ["change", "tokens", "saves", "items", "right before", "after", "drop, 95 % interval", "decision"];
  const start = ["the prompts as they are", String(tokens.before), "", "", "", "", "", ""];
  const table = formatTable([header, start, ...decisions.map(rowOf)]);
  if (confirmation === undefined) return `${table}\n\nno change is kept`;
  const { comparison, tokens: asked } = confirmation;
  const { overall } = comparison;
  return [
    table,
    "",
    `kept together, on ${overall.numItems} other items: ${savingText(asked)}; ` +
      `right ${percent(overall.before)}, then ${percent(overall.after)}; drop ${dropText(comparison)} points`,
    verdictText(comparison),
    ...(written === undefined ? [] : [`written: ${written}`]),
  ].join("\n");
}

const dropText = ({ overall: { drop, interval } }: Comparison): string =>
  `${points(drop)} (${points(interval[0])} to ${points(interval[1])})`;

function rowOf({ name, numTokens, saved, comparison, ...decision }: Decision): string[] {
  const { overall } = comparison;
  const shares = [percent(overall.before), percent(overall.after), dropText(comparison)];
  return [
    name,
    String(numTokens),
    percent(saved),
    String(overall.numItems),
    ...shares,
    outcomeOf({ ...decision, comparison }),
  ];
}

function outcomeOf({
  verdict,
  comparison: { numMoreItems, overall, maxDrop },
}: Pick<Decision, "verdict" | "comparison">): string {
  if (verdict === "passes") return "kept";
  if (overall.before <= maxDrop) return "refused: too few right answers to lose";
  if (verdict === "fails") return "refused";
  // One half of the items makes the decision.
  return numMoreItems === undefined ? "refused: open" : `refused: needs ${2 * numMoreItems} more items`;
}

/** @param tasks the original tasks @param written the written file, if any */
export function shortenedJson(
  model: string,
  tasks: readonly EvalTask[],
  { decisions, tokens, confirmation, tasks: shortened }: Shortened,
  written: string | undefined,
): object {
  return {
    model: { name: model },
    tokens,
    saved: savedOf(tokens),
    decisions: decisions.map(({ verdict, ...rest }) => ({ ...rest, verdict, isKept: verdict === "passes" })),
    confirmation: confirmation === undefined ? null : { ...confirmation, saved: savedOf(confirmation.tokens) },
    prompts: changedPrompts(tasks, shortened),
    written: written ?? null,
  };
}

/** Messages that many chats share, before and after; a removed example has no text after. */
function changedPrompts(tasks: readonly EvalTask[], shortened: readonly EvalTask[]): object[] {
  const before = tasks.flatMap(({ chats }) => chats);
  const after = shortened.flatMap(({ chats }) => chats);
  const promptOf = ({ messages }: (typeof before)[number]) => messages.slice(0, -1);
  const counts = sharedContents(before.map((chat) => ({ messages: promptOf(chat) })));
  const changed = new Map<string, object>();
  for (const [index, chat] of before.entries()) {
    const [old, now] = [promptOf(chat), promptOf(after[index]!)];
    // The system prompt comes first, and only later messages are left out.
    const [from, to] = [old[0], now[0]];
    if (from === undefined || from.content === to?.content || !counts.has(from.content) || changed.has(from.content))
      continue;
    changed.set(from.content, {
      role: from.role,
      before: from.content,
      after: to?.content ?? "",
      numChats: counts.get(from.content),
    });
  }
  return [...changed.values()];
}
