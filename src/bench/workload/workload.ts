/** What is asked, as data: each kind of traffic with its lengths in tokens. Where no temperature is named, it is 0. */

/** Or anywhere between the two, as many short as long ones on a logarithmic scale. */
export type Length = number | { readonly min: number; readonly max: number };

/** A line of a user's own prompts or of a trace. */
export interface Entry {
  /** Text or token ids, a chat, or random words of a length. */
  readonly prompt?: string | readonly number[] | undefined;
  readonly messages?: readonly Message[] | undefined;
  readonly promptTokens?: number | undefined;
  /** Of a prompt given by length: names of its pieces of 512 tokens; prompts with a name in common share that piece. */
  readonly pieces?: readonly number[] | undefined;
  /** At most so many, or where the length is the trace's own, exactly. */
  readonly outputTokens: number;
  /** The request's own, where the server tells tenants apart. */
  readonly apiKey?: string | undefined;
  /** Milliseconds after the trace's start. */
  readonly atMs?: number | undefined;
}

export interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export type Workload =
  /** Prompts of random tokens that begin with the run's shared ones, and answers of exactly the length asked for. */
  | {
      readonly kind: "random";
      readonly promptTokens: Length;
      readonly sharedTokens: number;
      readonly outputTokens: Length;
    }
  /** A system prompt common to all, then turns whose history grows; JSON: the user's part is a tool's result and the answer is to be an object. */
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
  /** A source file to be given back with one thing changed. */
  | {
      readonly kind: "code-edit";
      readonly fileTokens: number;
      readonly outputTokens: number;
      readonly temperature?: number;
    }
  | { readonly kind: "entries"; readonly entries: readonly Entry[] };

/** Requests of one session. */
export function turnsOf(workload: Workload): number {
  return workload.kind === "conversation" ? workload.numTurns : 1;
}

/** Whether some prompts are the user's own text, which is the same in every round. */
export const hasOwnText = (workload: Workload): boolean =>
  workload.kind === "entries" &&
  workload.entries.some((entry) => entry.prompt !== undefined || entry.messages !== undefined);

/** Like it, but for the user's own text: a server must not know that before it counts. */
export function warmUpOf(workload: Workload): Workload {
  if (workload.kind !== "entries") return workload;
  const entries = workload.entries.map(({ prompt, messages, ...rest }) =>
    prompt === undefined && messages === undefined
      ? rest
      : { ...rest, promptTokens: lengthOf(prompt ?? messages!.map(({ content }) => content).join(" ")) },
  );
  return { kind: "entries", entries };
}

/** About so many tokens. */
const lengthOf = (prompt: string | readonly number[]): number =>
  typeof prompt === "string" ? prompt.split(/\s+/).length : prompt.length;

/** The longest request in tokens, prompt and answer together, as far as it can be known. */
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
    case "entries":
      return Math.max(...workload.entries.map((entry) => (entry.promptTokens ?? 0) + entry.outputTokens));
  }
}

/** The same with all lengths multiplied, for models with a short context or slow machines. Entries stay as they are. */
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
