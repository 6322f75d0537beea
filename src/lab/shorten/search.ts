/**
 * Shortens the prompts of an evaluation. Candidates are tried one after another, each on top of the kept ones. Their
 * answers are compared with those to the original prompts or, if an earlier change surely improved the answers, with
 * those to its prompts, so that no later change loses that gain. One half of the items decides, and the other half
 * confirms the result, since a search among many candidates also keeps lucky ones.
 */
import { MillraceError } from "../../core/errors.js";
import type { StartStage } from "../../core/stages.js";
import { type PromptRequest, plainRequest } from "../../prompts/requests.js";
import type { Candidate, Method } from "../../prompts/shorten/candidate.js";
import { promptId } from "../../quality/ask.js";
import type { ScoredChat } from "../../quality/check.js";
import type { Comparison } from "../../quality/compare.js";
import { type Verdict, verdictOf } from "../../quality/paired.js";
import type { EvalTask } from "../../quality/tasks.js";
import type { EvalTarget } from "../eval-target.js";
import { evaluatePair } from "../evaluate.js";

export interface Decision {
  readonly name: string;
  readonly method: Method;
  /** Length of all prompts in this trial, by the counting tokenizer. */
  readonly numTokens: number;
  /** The candidate's saving beyond those kept before, as a share of the original tokens. */
  readonly saved: number;
  readonly verdict: Verdict;
  readonly comparison: Comparison;
}

interface TokenCounts {
  readonly before: number;
  readonly after: number;
}

export interface Shortened {
  readonly decisions: readonly Decision[];
  readonly kept: readonly Candidate[];
  readonly tasks: readonly EvalTask[];
  /** Prompt tokens of all items, by the counting tokenizer. */
  readonly tokens: TokenCounts;
  /** undefined: no candidate was kept */
  readonly confirmation:
    | {
        readonly comparison: Comparison;
        /** Prompt tokens of the confirming items, by the model's server. */
        readonly tokens: TokenCounts;
      }
    | undefined;
}

/** Creates candidates for the requests with the kept changes. */
export type CandidateStage = (requests: readonly PromptRequest[]) => readonly Candidate[];

interface Search {
  readonly target: EvalTarget;
  readonly tasks: readonly EvalTask[];
  /** Stages in order. Within a stage, the candidate with the largest saving is tried first. */
  readonly stages: readonly CandidateStage[];
  /** The largest permitted drop, as a share of 1. */
  readonly maxDrop: number;
  /** Number of tokens of a text. */
  readonly count: (text: string) => number;
  readonly startStage: StartStage;
}

/** Least share of saved tokens that is worth an evaluation. */
const LEAST_SAVED = 0.005;

/** @throws invalid_option, before any question, for items that all have the same prompt */
export async function shortenPrompts({
  target,
  tasks,
  stages,
  maxDrop,
  count,
  startStage,
}: Search): Promise<Shortened> {
  const chats = tasks.flatMap((task) => task.chats);
  const original = chats.map(requestOf);
  const deciding = decidingItems(tasks);
  const sizes = new TokenCounter(count);
  const numBefore = sizes.total(original);
  const decisions: Decision[] = [];
  const kept: Candidate[] = [];
  let current: readonly PromptRequest[] = original;
  let best: readonly PromptRequest[] = original;

  const asking = (requests: readonly PromptRequest[], name: string): EvalTarget =>
    shortenedTarget(target, name, new Map(chats.map((chat, index) => [chat, chatOf(chat, requests[index]!)])));
  const compare = async (before: EvalTarget, after: EvalTarget, isDeciding: boolean, name: string) => {
    const half = tasks.map((task) => ({
      ...task,
      chats: task.chats.filter((chat) => deciding.has(chat) === isDeciding),
    }));
    const gate = { maxDrop, isSequential: isDeciding };
    return evaluatePair(before, after, half, gate, (stage) => startStage(isDeciding ? name : `${name}, ${stage}`));
  };

  for (const stage of stages) {
    for (const candidate of await mostSavingFirst(stage(current), current, sizes)) {
      if (kept.some(({ group }) => group === candidate.group)) continue;
      const tried = await candidate.apply(current);
      const numTokens = sizes.total(tried);
      const saved = (sizes.total(current) - numTokens) / Math.max(1, numBefore);
      if (saved < LEAST_SAVED) continue;
      const reference = best === original ? target : asking(best, "best");
      const { comparison } = await compare(reference, asking(tried, "shortened"), true, candidate.name);
      const verdict = verdictFrom(comparison);
      decisions.push({ name: candidate.name, method: candidate.method, numTokens, saved, verdict, comparison });
      if (verdict !== "passes") continue;
      kept.push(candidate);
      current = tried;
      if (comparison.overall.interval[1] < 0) best = tried;
    }
    sizes.forget();
  }
  const shortened = { decisions, kept, tokens: { before: numBefore, after: sizes.total(current) } };
  const byChat = new Map(chats.map((chat, index) => [chat, chatOf(chat, current[index]!)]));
  const results = tasks.map((task) => ({ ...task, chats: task.chats.map((chat) => byChat.get(chat)!) }));
  if (kept.length === 0) return { ...shortened, tasks: results, confirmation: undefined };
  const { before, after, comparison } = await compare(target, asking(current, "shortened"), false, "confirmation");
  const tokensOf = (all: typeof before): number =>
    all.flatMap(({ items }) => items).reduce((sum, { numPromptTokens }) => sum + numPromptTokens, 0);
  const tokens = { before: tokensOf(before), after: tokensOf(after) };
  return { ...shortened, tasks: results, confirmation: { comparison, tokens } };
}

/** Items that are hardly ever answered right cannot show a drop, so they decide nothing. */
function verdictFrom({ verdict, overall, maxDrop }: Comparison): Verdict {
  if (overall.before <= maxDrop) return "undecided";
  // Undecided means that all items were asked. Their number was fixed beforehand, so a plain test of all items is
  // valid.
  return verdict === "undecided" ? verdictOf(overall, maxDrop) : verdict;
}

/** Half of each task's items, by the hash of the prompt. Items with the same prompt are in the same half. */
function decidingItems(tasks: readonly EvalTask[]): ReadonlySet<ScoredChat> {
  const deciding = new Set<ScoredChat>();
  const halves = new Map<string, boolean>();
  // Deciding items minus others: `surplus` over all tasks, `own` within one task.
  let surplus = 0;
  for (const { chats } of tasks) {
    const items = chats.map((chat) => ({ chat, id: promptId(chat.messages.slice(0, -1)) }));
    let own = 0;
    for (const { chat, id } of items.sort((a, b) => Number(a.id > b.id) - Number(a.id < b.id))) {
      const isDeciding = halves.get(id) ?? (own === 0 ? surplus <= 0 : own < 0);
      halves.set(id, isDeciding);
      if (isDeciding) deciding.add(chat);
      own += isDeciding ? 1 : -1;
      surplus += isDeciding ? 1 : -1;
    }
  }
  if (![...halves.values()].includes(false)) {
    throw new MillraceError("invalid_option", "expected items with two different prompts at least, got one prompt", {
      hint: "one half of the items decides and the other half confirms: add items, or raise --count",
    });
  }
  return deciding;
}

async function mostSavingFirst(
  candidates: readonly Candidate[],
  requests: readonly PromptRequest[],
  sizes: TokenCounter,
): Promise<readonly Candidate[]> {
  const sized: { readonly candidate: Candidate; readonly numTokens: number }[] = [];
  for (const candidate of candidates) {
    sized.push({ candidate, numTokens: sizes.total(await candidate.apply(requests)) });
  }
  return sized.sort((a, b) => a.numTokens - b.numTokens).map(({ candidate }) => candidate);
}

/** Counts each text once. */
class TokenCounter {
  readonly #known = new Map<string, number>();

  constructor(private readonly count: (text: string) => number) {}

  total(requests: readonly PromptRequest[]): number {
    return requests.reduce((sum, { messages, tools }) => {
      const texts = [
        ...messages.map(({ content }) => content),
        ...tools.map(({ definition }) => JSON.stringify(definition)),
      ];
      return sum + texts.reduce((own, text) => own + this.#countOf(text), 0);
    }, 0);
  }

  #countOf(text: string): number {
    const known = this.#known.get(text) ?? this.count(text);
    this.#known.set(text, known);
    return known;
  }

  forget(): void {
    this.#known.clear();
  }
}

/** Recorded requests with the kept changes. */
export async function applied(
  kept: readonly Candidate[],
  requests: readonly PromptRequest[],
): Promise<readonly PromptRequest[]> {
  let current = requests;
  for (const candidate of kept) current = await candidate.apply(current);
  return current;
}

/** A chat's prompt as an application sends it. */
const requestOf = ({ messages, tools }: ScoredChat): PromptRequest =>
  plainRequest(messages.slice(0, -1), messages.at(-1)!.content, tools);

/** `chat` with the prompt of `request`. */
function chatOf(chat: ScoredChat, { messages, tools }: PromptRequest): ScoredChat {
  const prompt = messages.map(({ role, content }) => ({ role, content }) as ScoredChat["messages"][number]);
  const offered = (chat.tools ?? []).filter(({ function: { name } }) => tools.some((tool) => tool.name === name));
  return {
    ...chat,
    messages: [...prompt, chat.messages.at(-1)!],
    ...(chat.tools === undefined ? {} : { tools: offered }),
  };
}

/** Asks other prompts than the chats'. The results carry the chats' own prompts, by which they are paired. */
function shortenedTarget(target: EvalTarget, name: string, shortened: ReadonlyMap<ScoredChat, ScoredChat>): EvalTarget {
  const run: EvalTarget["run"] = async (task, onProgress) => {
    const result = await target.run({ ...task, chats: task.chats.map((chat) => shortened.get(chat)!) }, onProgress);
    const items = result.items.map((item, index) => ({ ...item, prompt: task.chats[index]!.messages.slice(0, -1) }));
    return { ...result, items };
  };
  return { ...target, name, run };
}
