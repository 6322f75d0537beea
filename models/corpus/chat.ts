/** The shapes every corpus family produces. */
import type { Random } from "./random.js";

export type Role = "system" | "user" | "assistant";

export interface Message {
  readonly role: Role;
  readonly content: string;
}

export interface Chat {
  /** Which family wrote it; the scorer reports per family. */
  readonly family: string;
  readonly messages: readonly Message[];
}

/** One user message and its answer, the unit families are made of. */
export interface Exchange {
  readonly question: string;
  readonly answer: string;
}

export type ExchangeMaker = (random: Random) => Exchange;

export function toMessages(exchange: Exchange): Message[] {
  return [
    { role: "user", content: exchange.question },
    { role: "assistant", content: exchange.answer },
  ];
}
