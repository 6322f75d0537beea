/** Generates requests from a workload, a server's facts and a seed; equal inputs give equal requests. */

import { plainChatOf } from "../../core/recorded-request.js";
import { prose, question, searchResults, sourceFile } from "./prose.js";
import { Random, seedFrom } from "./random.js";
import type { OpenSession, Session, Turn } from "./session.js";
import type { Entry, Length, Message, Workload } from "./workload.js";

/** Facts about a server, found by probing it. */
export interface ProbedServer {
  /** The model's name in requests. */
  readonly model: string;
  readonly hasCompletions: boolean;
  readonly hasChat: boolean;
  /** Ids of ordinary text tokens; empty: the server accepts text prompts only. */
  readonly tokenIds: readonly number[];
  readonly ignoresEos: boolean;
  readonly hasJsonMode: boolean;
  /**
   * Tokens per word of prose, blanks included; and the tokens added to a plain prompt, and to a chat of one message.
   */
  readonly tokensPerWord: number;
  readonly promptOverhead: number;
  readonly chatOverhead: number;
  readonly maxModelLen?: number | undefined;
  /** Present for servers of vectors. */
  readonly vectors?: ProbedVectors | undefined;
}

/** A server's token counts, and its vectors of the probe's texts. */
export interface ProbedVectors {
  /** Words that are single tokens. */
  readonly words: readonly string[];
  /** Tokens that the server adds to a text. */
  readonly overhead: number;
  readonly ofTexts: readonly (readonly number[])[];
}

export interface Traffic {
  readonly workload: Workload;
  readonly server: ProbedServer;
  readonly seed: number;
}

interface Limit {
  readonly maxTokens: number;
  /** Whether the answer must have exactly this length. */
  readonly isFixed: boolean;
  readonly isJson?: boolean;
  readonly temperature?: number | undefined;
}

const CHARACTERS_PER_CODE_TOKEN = 3.5;
const TOKENS_PER_PIECE = 512;

/** Seed of the content that all sessions of a run share; sessions have seeds from 0 on. */
const SHARED = -1;

export function sessionsOf(traffic: Traffic): OpenSession {
  const writer = new Writer(traffic.server, traffic.seed);
  const { workload } = traffic;
  return (index) => {
    const random = new Random(seedFrom(traffic.seed, index));
    switch (workload.kind) {
      case "random":
        return once(() => writer.random(random, workload));
      case "conversation":
        return writer.conversation(random, workload);
      case "documents":
        return once(() => writer.aboutDocument(random, workload));
      case "code-edit":
        return once(() => writer.codeEdit(random, workload));
      case "texts":
        return once(() => writer.texts(random, workload));
      case "entries":
        return once(() => writer.entry(random, workload.entries[index % workload.entries.length]!));
    }
  };
}

function once(make: () => Turn): Session {
  let isOver = false;
  return {
    next: () => {
      if (isOver) return undefined;
      isOver = true;
      return make();
    },
  };
}

function drawLength(random: Random, length: Length): number {
  if (typeof length === "number") return length;
  return Math.round(length.min * (length.max / length.min) ** random.uniform());
}

type Kind<K extends Workload["kind"]> = Extract<Workload, { readonly kind: K }>;

class Writer {
  constructor(
    private readonly server: ProbedServer,
    private readonly seed: number,
  ) {}

  random(random: Random, { promptTokens, sharedTokens, outputTokens }: Kind<"random">): Turn {
    const length = drawLength(random, promptTokens);
    const limit = { maxTokens: drawLength(random, outputTokens), isFixed: true };
    const shared = { random: this.#shared(), numTokens: Math.min(sharedTokens, length) };
    return this.#pieces([shared, { random, numTokens: length - shared.numTokens }], limit);
  }

  conversation(random: Random, workload: Kind<"conversation">): Session {
    const { systemTokens, turnTokens, numTurns, outputTokens, isFixed, format, temperature } = workload;
    const isJson = format === "json";
    const rules = isJson ? " Answer every result with one JSON object that has the keys thought and query." : "";
    const messages: Message[] = [
      { role: "system", content: `${prose(this.#shared(), this.#words(systemTokens))}.${rules}` },
    ];
    const ask = (): string => {
      if (isJson) return searchResults(random, this.#words(turnTokens));
      const asked = question(random);
      const numWords = this.#words(turnTokens) - asked.split(" ").length;
      return numWords > 0 ? `${prose(random, numWords)} ${asked}` : asked;
    };
    let turn = 0;
    return {
      next: (answer) => {
        if (turn++ >= numTurns) return undefined;
        if (turn > 1) messages.push({ role: "assistant", content: answer });
        messages.push({ role: "user", content: ask() });
        return this.#chat(messages, { maxTokens: outputTokens, isFixed, isJson, temperature });
      },
    };
  }

  aboutDocument(random: Random, { numDocuments, documentTokens, outputTokens }: Kind<"documents">): Turn {
    const which = new Random(seedFrom(this.seed, SHARED, random.integer(1, numDocuments)));
    const messages: Message[] = [
      { role: "system", content: `Answer from this report only.\n\n${prose(which, this.#words(documentTokens))}` },
      { role: "user", content: question(random) },
    ];
    return this.#chat(messages, { maxTokens: outputTokens, isFixed: false });
  }

  codeEdit(random: Random, { fileTokens, outputTokens, temperature }: Kind<"code-edit">): Turn {
    const file = sourceFile(random, fileTokens * CHARACTERS_PER_CODE_TOKEN);
    const task = `Rename the variable total to sum${random.integer(1, 999)} and give the whole file back, nothing else.`;
    const messages: Message[] = [{ role: "user", content: `${task}\n\n\`\`\`ts\n${file}\`\`\`` }];
    return this.#chat(messages, { maxTokens: outputTokens, isFixed: false, temperature });
  }

  texts(random: Random, { tokensPerText, textsPerRequest }: Kind<"texts">): Turn {
    const { model, vectors } = this.server;
    const { words, overhead } = vectors!;
    const text = () =>
      Array.from({ length: Math.max(1, tokensPerText - overhead) }, () => random.pick(words)).join(" ");
    const input = Array.from({ length: textsPerRequest }, text);
    const body = JSON.stringify({ model, input });
    return { path: "/v1/embeddings", body, numTokensAsked: undefined, numVectorsAsked: textsPerRequest };
  }

  entry(random: Random, entry: Entry): Turn {
    const turn = this.#entry(random, entry);
    return entry.apiKey === undefined ? turn : { ...turn, headers: { authorization: `Bearer ${entry.apiKey}` } };
  }

  #entry(random: Random, entry: Entry): Turn {
    const { prompt, messages, chat, promptTokens = 0, pieces = [], outputTokens } = entry;
    if (chat !== undefined) return this.#recorded(chat, outputTokens);
    if (messages !== undefined) return this.#chat(messages, { maxTokens: outputTokens, isFixed: false });
    if (prompt !== undefined) return this.#prompt(prompt, { maxTokens: outputTokens, isFixed: false });
    const named = pieces.map((name, i) => ({
      random: new Random(seedFrom(this.seed, SHARED, name)),
      numTokens: Math.min(TOKENS_PER_PIECE, Math.max(0, promptTokens - i * TOKENS_PER_PIECE)),
    }));
    const own = { random, numTokens: Math.max(0, promptTokens - pieces.length * TOKENS_PER_PIECE) };
    return this.#pieces([...named, own], { maxTokens: outputTokens, isFixed: true });
  }

  #shared(): Random {
    return new Random(seedFrom(this.seed, SHARED));
  }

  #words(numTokens: number): number {
    return Math.max(1, Math.round(numTokens / this.server.tokensPerWord));
  }

  /**
   * Random tokens if the server accepts ids, otherwise words of about as many tokens. The server's overhead is
   * subtracted from the last piece.
   */
  #pieces(pieces: readonly { readonly random: Random; readonly numTokens: number }[], limit: Limit): Turn {
    const { tokenIds, hasCompletions, promptOverhead, chatOverhead } = this.server;
    const overhead = hasCompletions ? promptOverhead : chatOverhead;
    const sized = pieces
      .filter((piece) => piece.numTokens > 0)
      .map(({ random, numTokens }, i, all) => ({
        random,
        numTokens: i === all.length - 1 ? Math.max(1, numTokens - overhead) : numTokens,
      }));
    if (tokenIds.length > 0) {
      const draw = ({ random, numTokens }: (typeof sized)[number]) =>
        Array.from({ length: numTokens }, () => random.pick(tokenIds));
      return this.#prompt(sized.flatMap(draw), limit);
    }
    return this.#prompt(sized.map(({ random, numTokens }) => prose(random, this.#words(numTokens))).join(" "), limit);
  }

  #prompt(prompt: string | readonly number[], limit: Limit): Turn {
    if (this.server.hasCompletions) return this.#turn("/v1/completions", { prompt }, limit);
    return this.#turn("/v1/chat/completions", { messages: [{ role: "user", content: prompt }] }, limit);
  }

  /** The recorded request unchanged, where the server accepts chats. */
  #recorded(chat: Readonly<Record<string, unknown>>, maxTokens: number): Turn {
    const { temperature } = chat;
    const limit = { maxTokens, isFixed: false, ...(typeof temperature === "number" ? { temperature } : {}) };
    if (this.server.hasChat) return this.#turn("/v1/chat/completions", chat, limit);
    const plain = plainChatOf({ request: chat });
    return this.#chat(plain?.messages ?? [{ role: "user", content: JSON.stringify(chat.messages) }], limit);
  }

  #chat(messages: readonly Message[], limit: Limit): Turn {
    if (this.server.hasChat) return this.#turn("/v1/chat/completions", { messages }, limit);
    const text = messages.map(({ role, content }) => `${role}: ${content}\n`).join("");
    return this.#turn("/v1/completions", { prompt: `${text}assistant:` }, limit);
  }

  #turn(path: string, prompt: object, { maxTokens, isFixed, isJson = false, temperature = 0 }: Limit): Turn {
    const { model, ignoresEos, hasJsonMode } = this.server;
    const isExact = isFixed && ignoresEos;
    const body = {
      model,
      ...prompt,
      max_tokens: maxTokens,
      temperature,
      stream: true,
      stream_options: { include_usage: true },
      ...(isExact ? { ignore_eos: true } : {}),
      ...(isJson && hasJsonMode ? { response_format: { type: "json_object" } } : {}),
    };
    return { path, body: JSON.stringify(body), numTokensAsked: isExact ? maxTokens : undefined };
  }
}
