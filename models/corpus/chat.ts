/** The shapes every corpus family produces. */
import type { Random } from "./random.js";

type Role = "system" | "user" | "assistant";

interface Message {
  readonly role: Role;
  readonly content: string;
}

/** A rule that an answer keeps or breaks. */
type Rule =
  | { readonly rule: "words" | "bullets"; readonly min?: number; readonly max?: number }
  | { readonly rule: "lowercase" | "uppercase" }
  | { readonly rule: "begins" | "ends"; readonly text: string }
  | { readonly rule: "contains"; readonly text: string; readonly min?: number; readonly max?: number };

interface ExpectedCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** How the last answer of a chat is judged; `src/quality` has the scorers. */
export type Check =
  /** No right answer. */
  | { readonly kind: "none" }
  /** Equal to the expected answer, white space at the ends of lines aside. */
  | { readonly kind: "exact" }
  /** Equal but for letter case, quotes around it and a final mark. */
  | { readonly kind: "phrase" }
  /** The last number of the answer. */
  | { readonly kind: "number"; readonly value: number }
  /** The expected answer is JSON; values count, key order and white space do not. */
  | { readonly kind: "json" }
  /** As many distinct items as asked for, all of them among these. */
  | { readonly kind: "list"; readonly numItems: number; readonly items: readonly string[] }
  /** Ends properly and has all these words. */
  | { readonly kind: "mentions"; readonly words: readonly string[] }
  /** Shares word sequences with the expected answer and states these facts. */
  | { readonly kind: "overlap"; readonly facts: readonly string[] }
  /** Contains one of these texts. */
  | { readonly kind: "includes"; readonly texts: readonly string[] }
  /** Keeps each of these rules. */
  | { readonly kind: "follows"; readonly rules: readonly Rule[] }
  /** Has none of these faults of production traffic. */
  | { readonly kind: "without"; readonly faults: readonly "refusal"[] }
  /** The answer calls these tools, and no others. */
  | { readonly kind: "calls"; readonly calls: readonly ExpectedCall[] }
  /** The answer defines `name`; each call gives what is expected. */
  | {
      readonly kind: "code";
      readonly language: "typescript" | "python";
      readonly name: string;
      readonly calls: readonly { readonly args: readonly unknown[]; readonly expect: unknown }[];
    };

/** A tool as OpenAI's API has it. */
export type Tool = {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description: string; readonly parameters: object };
};

export interface Chat {
  /** Which family wrote it; the scorer reports per family. */
  readonly family: string;
  readonly messages: readonly Message[];
  readonly check: Check;
  /** Offered with the prompt. */
  readonly tools?: readonly Tool[];
}

/** A chat before its family's name and, perhaps, a system message are added. */
export type Draft = Omit<Chat, "family">;
export type DraftMaker = (random: Random) => Draft;

/** One user message and its answer, the unit families are made of. Without a check there is no one right answer. */
export interface Exchange {
  readonly question: string;
  readonly answer: string;
  readonly check?: Check;
}

export type ExchangeMaker = (random: Random) => Exchange;

/** Turns one after another; the last one's check is the chat's. */
export function toDraft(exchanges: readonly Exchange[], system?: string): Draft {
  const turns = exchanges.flatMap(({ question, answer }): Message[] => [
    { role: "user", content: question },
    { role: "assistant", content: answer },
  ]);
  const messages: Message[] = system === undefined ? turns : [{ role: "system", content: system }, ...turns];
  return { messages, check: exchanges.at(-1)?.check ?? { kind: "none" } };
}
