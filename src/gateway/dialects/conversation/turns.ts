/**
 * Puts a conversation's parts into alternating turns, and calls and their results into the order that providers insist
 * on.
 */
import { createHash } from "node:crypto";
import type { AssistantPart, Turn, UserPart } from "./conversation.js";

interface OpenTurn {
  readonly role: Turn["role"];
  readonly results: UserPart[];
  readonly others: (UserPart | AssistantPart)[];
}

export class TurnList {
  readonly #turns: OpenTurn[] = [];

  /** Results after text of the user's still belong to the calls before it, and come first. */
  get turns(): readonly Turn[] {
    return this.#turns.map(({ role, results, others }) => ({ role, parts: [...results, ...others] }) as Turn);
  }

  get numTurns(): number {
    return this.#turns.length;
  }

  /** Joins neighbours of one role into one turn. Empty text is dropped, since providers refuse it. */
  add(role: "user", parts: readonly UserPart[]): void;
  add(role: "assistant", parts: readonly AssistantPart[]): void;
  add(role: Turn["role"], parts: readonly (UserPart | AssistantPart)[]): void {
    const filled = parts.filter((part) => part.kind !== "text" || part.text !== "");
    if (filled.length === 0) return;
    if (this.#turns.at(-1)?.role !== role) this.#turns.push({ role, results: [], others: [] });
    const { results, others } = this.#turns.at(-1)!;
    for (const part of filled) {
      if (part.kind === "result") results.push(part);
      else others.push(part);
    }
  }
}

const MAX_ID_LENGTH = 40;
const ID = /^[\w-]+$/;

/** An id that every provider accepts: the same for a call and its result, and the client's own if possible. */
export function callId(id: string): string {
  if (id.length <= MAX_ID_LENGTH && ID.test(id)) return id;
  return `call_${createHash("sha256").update(id).digest("hex").slice(0, 24)}`;
}
