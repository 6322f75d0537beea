/**
 * Maps each API's `usage` to disjoint counts. The APIs differ in which counts include which; adding them up unchanged
 * makes wrong and even negative bills.
 */
import type { TokenCounts } from "./record.js";

/** A `usage` object as an upstream wrote it. */
export type ReportedUsage = Readonly<Record<string, unknown>>;

/** No answer has more tokens; a larger figure is not a count. */
const MAX_TOKENS = 1e9;

const isCount = (value: unknown): value is number => typeof value === "number" && value >= 0 && value <= MAX_TOKENS;

/** Merges two reports of a stream, which may report some counts early and others late: the newer of each is right. */
export function laterUsage(before: ReportedUsage | undefined, usage: ReportedUsage): ReportedUsage {
  const told = Object.entries(usage).filter(
    ([, value]) => value !== null && (typeof value !== "number" || isCount(value)),
  );
  return { ...before, ...Object.fromEntries(told) };
}

/** Reads counts from untrusted JSON. */
class Figures {
  isDoubtful = false;

  constructor(private readonly usage: ReportedUsage) {}

  /** The first present field. @param names with a dot for a field of a nested object */
  first(...names: readonly string[]): number | undefined {
    for (const name of names) {
      const count = this.#count(name);
      if (count !== undefined) return count;
    }
    return undefined;
  }

  /** The rest of a whole, at least 0. */
  rest(whole: number, part: number): number {
    if (part > whole) this.isDoubtful = true;
    return Math.max(0, whole - part);
  }

  /** A part is at most the whole. */
  part(part: number, whole: number): number {
    if (part > whole) this.isDoubtful = true;
    return Math.min(part, whole);
  }

  #count(name: string): number | undefined {
    const dot = name.indexOf(".");
    const holder = dot < 0 ? this.usage : (this.usage[name.slice(0, dot)] as ReportedUsage | null | undefined);
    const value = holder?.[dot < 0 ? name : name.slice(dot + 1)];
    if (value === undefined || value === null) return undefined;
    if (isCount(value)) return Math.floor(value);
    this.isDoubtful = true;
    return undefined;
  }
}

/** @returns undefined without any count of tokens; zeros alone are none, since every prompt has tokens */
export function countsOf(usage: ReportedUsage): TokenCounts | undefined {
  const figures = new Figures(usage);
  const counts = "promptTokenCount" in usage ? gemini(figures) : (inclusive(figures) ?? exclusive(figures));
  if (counts === undefined || promptTokensOf(counts) + counts.output === 0) return undefined;
  const drafted = draftedOf(figures);
  if (drafted === undefined && !figures.isDoubtful) return counts;
  return { ...counts, ...drafted, ...(figures.isDoubtful ? { isDoubtful: true } : {}) };
}

/**
 * OpenAI's chat and responses, and compatible APIs: the prompt includes its cached tokens, the output its reasoning.
 */
function inclusive(figures: Figures): TokenCounts | undefined {
  const isResponses = figures.first("input_tokens_details.cached_tokens") !== undefined;
  const prompt = figures.first("prompt_tokens") ?? (isResponses ? figures.first("input_tokens") : undefined);
  if (prompt === undefined) return undefined;
  const details = ["prompt_tokens_details.", "input_tokens_details."];
  const of = (name: string) => figures.first(...details.map((each) => each + name));
  const cacheRead = figures.part(of("cached_tokens") ?? figures.first("prompt_cache_hit_tokens") ?? 0, prompt);
  const cacheWrite = figures.part(of("cache_write_tokens") ?? 0, figures.rest(prompt, cacheRead));
  const completion = figures.first("completion_tokens", "output_tokens") ?? 0;
  const reasoning =
    figures.first("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens") ?? 0;
  // Some leave the reasoning out of the completion, and include it in the total only.
  const beyond = Math.max(0, (figures.first("total_tokens") ?? 0) - prompt - completion);
  const output = completion + (isReasoningBeyond(reasoning, completion, beyond) ? beyond : 0);
  return {
    fresh: figures.rest(prompt, cacheRead + cacheWrite),
    cacheRead,
    cacheWrite,
    output,
    reasoning: figures.part(reasoning, output),
  };
}

/**
 * Whether tokens of the total beyond prompt and completion are reasoning: not if a smaller reasoning is reported within
 * the completion.
 */
function isReasoningBeyond(reasoning: number, completion: number, beyond: number): boolean {
  return beyond > 0 && (reasoning === 0 || reasoning === beyond || reasoning > completion);
}

/** Anthropic and Bedrock: the prompt excludes tokens read from and written to the cache. */
function exclusive(figures: Figures): TokenCounts | undefined {
  const input = figures.first("input_tokens", "inputTokens");
  const output = figures.first("output_tokens", "completion_tokens", "outputTokens");
  if (input === undefined && output === undefined) return undefined;
  const writes = figures.first("cache_creation_input_tokens", "cacheWriteInputTokens");
  const reasoning = figures.first("output_tokens_details.reasoning_tokens", "output_tokens_details.thinking_tokens");
  return {
    fresh: input ?? 0,
    cacheRead: figures.first("cache_read_input_tokens", "cacheReadInputTokens") ?? 0,
    cacheWrite: writes ?? 0,
    output: output ?? 0,
    reasoning: figures.part(reasoning ?? 0, output ?? 0),
  };
}

/** Gemini: the prompt includes the cached part, the candidates exclude the thoughts. */
function gemini(figures: Figures): TokenCounts {
  const prompt = (figures.first("promptTokenCount") ?? 0) + (figures.first("toolUsePromptTokenCount") ?? 0);
  const cacheRead = figures.part(figures.first("cachedContentTokenCount") ?? 0, prompt);
  const reasoning = figures.first("thoughtsTokenCount") ?? 0;
  const output = (figures.first("candidatesTokenCount") ?? 0) + reasoning;
  return { fresh: prompt - cacheRead, cacheRead, cacheWrite: 0, output, reasoning };
}

/** Tokens proposed ahead of the model, if they are reported. */
function draftedOf(figures: Figures): Pick<TokenCounts, "drafted" | "accepted"> | undefined {
  const accepted = figures.first("completion_tokens_details.accepted_prediction_tokens");
  const rejected = figures.first("completion_tokens_details.rejected_prediction_tokens");
  if (accepted === undefined && rejected === undefined) return undefined;
  return { drafted: (accepted ?? 0) + (rejected ?? 0), accepted: accepted ?? 0 };
}

/** All tokens of the prompt, cached or not. */
export function promptTokensOf({ fresh, cacheRead, cacheWrite }: TokenCounts): number {
  return fresh + cacheRead + cacheWrite;
}
