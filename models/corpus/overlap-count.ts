/** How much of held-out chats training text already holds: whole chats, last turns, answers, and runs of words. */
import type { Chat } from "./chat.js";

interface FamilyOverlap {
  readonly family: string;
  readonly numChats: number;
  /** Share of the chats that occur word for word. */
  readonly chats: number;
  /** Share of the last questions that occur together with their answer, whatever came before. */
  readonly turns: number;
  /** Share of the last answers that occur as an answer to anything. */
  readonly answers: number;
  /** Share of the runs of ANSWER_WORDS words in last answers that occur in an answer. */
  readonly answerRuns: number;
  /** Share of the runs of CHAT_WORDS words in whole chats that occur in a chat. */
  readonly chatRuns: number;
}

export const ANSWER_WORDS = 8;
export const CHAT_WORDS = 13;

type Share = "chats" | "turns" | "answers" | "answerRuns" | "chatRuns";
const SHARES: readonly Share[] = ["chats", "turns", "answers", "answerRuns", "chatRuns"];

/** Words and single marks, so that a changed mark is a change. */
const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) ?? [];

function runsOf(text: string, length: number): string[] {
  const words = wordsOf(text);
  return Array.from({ length: Math.max(0, words.length - length + 1) }, (_, start) =>
    words.slice(start, start + length).join(" "),
  );
}

/**
 * What of a chat is looked for, and found in others. Only its last turn is held out, but all its turns are trained on.
 */
function piecesOf({ messages }: Chat, turns: "last" | "all"): Record<Share, string[]> {
  const pairs = messages.flatMap((message, index) =>
    message.role === "assistant" ? [[messages[index - 1]?.content ?? "", message.content] as const] : [],
  );
  const counted = turns === "last" ? pairs.slice(-1) : pairs;
  return {
    chats: [JSON.stringify(messages)],
    turns: counted.map(([question, answer]) => JSON.stringify([question, answer])),
    answers: counted.map(([, answer]) => answer),
    answerRuns: counted.flatMap(([, answer]) => runsOf(answer, ANSWER_WORDS)),
    chatRuns: runsOf(messages.map(({ content }) => content).join("\n"), CHAT_WORDS),
  };
}

/** Keeps the held-out pieces only, so that any amount of training text can be streamed past them. */
export class OverlapCount {
  readonly #heldOut: readonly { readonly family: string; readonly pieces: Record<Share, string[]> }[];
  readonly #isSeen: Readonly<Record<Share, Map<string, boolean>>>;

  constructor(heldOut: readonly Chat[]) {
    this.#heldOut = heldOut.map((chat) => ({ family: chat.family, pieces: piecesOf(chat, "last") }));
    const unseen = (share: Share): Map<string, boolean> =>
      new Map(this.#heldOut.flatMap(({ pieces }) => pieces[share].map((piece) => [piece, false] as const)));
    this.#isSeen = {
      chats: unseen("chats"),
      turns: unseen("turns"),
      answers: unseen("answers"),
      answerRuns: unseen("answerRuns"),
      chatRuns: unseen("chatRuns"),
    };
  }

  addTraining(chat: Chat): void {
    const pieces = piecesOf(chat, "all");
    for (const share of SHARES) {
      const seen = this.#isSeen[share];
      for (const piece of pieces[share]) if (seen.has(piece)) seen.set(piece, true);
    }
  }

  /** A row for each family in the order of the held-out chats, and one named "all". */
  report(): FamilyOverlap[] {
    const families = [...new Set(this.#heldOut.map(({ family }) => family))];
    return [...families, "all"].map((family) => {
      const chosen = this.#heldOut.filter((chat) => family === "all" || chat.family === family);
      const shareOf = (share: Share): number => {
        const pieces = chosen.flatMap((chat) => chat.pieces[share]);
        const numSeen = pieces.filter((piece) => this.#isSeen[share].get(piece)).length;
        return pieces.length === 0 ? 0 : numSeen / pieces.length;
      };
      return {
        family,
        numChats: chosen.length,
        chats: shareOf("chats"),
        turns: shareOf("turns"),
        answers: shareOf("answers"),
        answerRuns: shareOf("answerRuns"),
        chatRuns: shareOf("chatRuns"),
      };
    });
  }
}
