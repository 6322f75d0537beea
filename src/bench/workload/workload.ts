/** Workloads as data: kinds of traffic with their lengths in tokens. The default temperature is 0. */

/** A fixed length, or a range, evenly spread on a logarithmic scale. */
export type Length = number | { readonly min: number; readonly max: number };

/** A line of a user's own prompts or of a trace. */
export interface Entry {
  /** Prompt as text or token ids; or messages; or a length for random words. */
  readonly prompt?: string | readonly number[] | undefined;
  readonly messages?: readonly Message[] | undefined;
  /** Alternatively the fields of a recorded chat request, including `messages`, without its model and limits. */
  readonly chat?: Readonly<Record<string, unknown>> | undefined;
  readonly promptTokens?: number | undefined;
  /** For a prompt given by length: ids of its pieces of 512 tokens. Prompts with the same id share that piece. */
  readonly pieces?: readonly number[] | undefined;
  /** Longest answer; the exact length for traces. */
  readonly outputTokens: number;
  /** API key of the request, for servers with tenants. */
  readonly apiKey?: string | undefined;
  /** Milliseconds after the trace's start. */
  readonly atMs?: number | undefined;
}

export interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export type Workload =
  /** Prompts of random tokens that begin with a shared part, and answers of exact length. */
  | {
      readonly kind: "random";
      readonly promptTokens: Length;
      readonly sharedTokens: number;
      readonly outputTokens: Length;
    }
  /**
   * A shared system prompt, then turns with growing history. With JSON, the user's part is a tool's result and the
   * answer must be an object.
   */
  | {
      readonly kind: "conversation";
      readonly systemTokens: number;
      readonly turnTokens: number;
      readonly numTurns: number;
      readonly outputTokens: number;
      readonly isFixed: boolean;
      readonly format: "prose" | "json";
      readonly temperature?: number;
    }
  /** Questions about one of a few documents. */
  | {
      readonly kind: "documents";
      readonly numDocuments: number;
      readonly documentTokens: number;
      readonly outputTokens: number;
    }
  /** A source file to repeat with one change. */
  | {
      readonly kind: "code-edit";
      readonly fileTokens: number;
      readonly outputTokens: number;
      readonly temperature?: number;
    }
  /** Texts of random words of one token each, for requests for vectors. */
  | { readonly kind: "texts"; readonly tokensPerText: number; readonly textsPerRequest: number }
  | { readonly kind: "entries"; readonly entries: readonly Entry[] };

/** Number of requests in a session. */
export function turnsOf(workload: Workload): number {
  return workload.kind === "conversation" ? workload.numTurns : 1;
}

/** Whether some prompts are given texts, which are the same in every round. */
export const hasOwnText = (workload: Workload): boolean =>
  workload.kind === "entries" && workload.entries.some((entry) => ownText(entry) !== undefined);

/** The given text of an entry, or its ids; undefined: the entry only gives a length. */
function ownText({ prompt, messages, chat }: Entry): string | readonly number[] | undefined {
  if (chat !== undefined) return JSON.stringify(chat);
  return prompt ?? messages?.map(({ content }) => content).join(" ");
}

/** A similar workload without given texts, for warm-up: given texts must not be cached before they count. */
export function warmUpOf(workload: Workload): Workload {
  if (workload.kind !== "entries") return workload;
  const entries = workload.entries.map((entry) => {
    const text = ownText(entry);
    const { prompt: _, messages: __, chat: ___, ...rest } = entry;
    return text === undefined ? rest : { ...rest, promptTokens: lengthOf(text) };
  });
  return { kind: "entries", entries };
}

/** Approximate length in tokens. */
const lengthOf = (prompt: string | readonly number[]): number =>
  typeof prompt === "string" ? prompt.split(/\s+/).length : prompt.length;

/** The longest request in tokens, prompt and answer together, as far as known. */
export function longestRequest(workload: Workload): number {
  const longest = (length: Length) => (typeof length === "number" ? length : length.max);
  switch (workload.kind) {
    case "random":
      return longest(workload.promptTokens) + longest(workload.outputTokens);
    case "conversation": {
      const { systemTokens, turnTokens, outputTokens, numTurns } = workload;
      return systemTokens + numTurns * (turnTokens + outputTokens);
    }
    case "documents":
      return workload.documentTokens + workload.outputTokens;
    case "code-edit":
      return workload.fileTokens + workload.outputTokens;
    case "texts":
      return workload.tokensPerText;
    case "entries":
      return Math.max(...workload.entries.map((entry) => (entry.promptTokens ?? 0) + entry.outputTokens));
  }
}

/** The workload with all lengths multiplied, for short contexts or slow machines. Entries are unchanged. */
export function scaled(workload: Workload, factor: number): Workload {
  const times = (tokens: number) => (tokens === 0 ? 0 : Math.max(1, Math.round(tokens * factor)));
  const length = (value: Length): Length =>
    typeof value === "number" ? times(value) : { min: times(value.min), max: times(value.max) };
  const fields = Object.entries(workload).map(([name, value]) => [
    name,
    name.endsWith("Tokens") ? length(value as Length) : value,
  ]);
  return Object.fromEntries(fields) as Workload;
}
