/**
 * Writes a client's answers in OpenAI's chat completions. Reasoning has the names that compatible servers and our own
 * engine give it.
 */
import { randomUUID } from "node:crypto";
import type { TokenCounts } from "../../usage/record.js";
import type { AnswerPart, AnswerWriter, StopReason } from "../conversation/answer-parts.js";
import { type Block, collected, NO_COUNTS } from "../conversation/collected.js";

const REASONS: Readonly<Record<StopReason, string>> = {
  end: "stop",
  sequence: "stop",
  pause: "stop",
  length: "length",
  calls: "tool_calls",
  filter: "content_filter",
  refusal: "content_filter",
};

interface ChatFacts {
  /** The name that the client gave the model, for answers that name none. */
  readonly model: string;
  /** The client asked for counts at the end of its stream. */
  readonly includesUsage: boolean;
  /** Unix time of the answer in seconds. */
  readonly created: number;
}

function chatUsage({ fresh, cacheRead, cacheWrite, output, reasoning }: TokenCounts): object {
  const prompt = fresh + cacheRead + cacheWrite;
  return {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: {
      cached_tokens: cacheRead,
      ...(cacheWrite === 0 ? {} : { cache_write_tokens: cacheWrite }),
    },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

/** Google's member for a call's signature in OpenAI's dialect. */
function extraContent(signature: string | undefined): object {
  return signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } };
}

export class ChatAnswerWriter implements AnswerWriter {
  #id = "";
  #model: string;
  #counts = NO_COUNTS;

  constructor(private readonly facts: ChatFacts) {
    this.#model = facts.model;
  }

  stream(parts: readonly AnswerPart[]): string {
    return parts.map((part) => this.#event(part)).join("");
  }

  streamEnd(): string {
    const usage = this.facts.includesUsage ? this.#chunk({ choices: [], usage: chatUsage(this.#counts) }) : "";
    return `${usage}data: [DONE]\n\n`;
  }

  whole(parts: readonly AnswerPart[]): object {
    const { id, model, blocks, stop, counts } = collected(parts);
    return {
      id: id ?? newId(),
      object: "chat.completion",
      created: this.facts.created,
      model: model ?? this.facts.model,
      choices: [{ index: 0, message: messageOf(blocks), logprobs: null, finish_reason: REASONS[stop] }],
      usage: chatUsage(counts),
    };
  }

  #event(part: AnswerPart): string {
    switch (part.kind) {
      case "begin":
        this.#id = part.id ?? newId();
        this.#model = part.model ?? this.facts.model;
        return this.#delta({ role: "assistant", content: "" });
      case "text":
        return this.#delta({ content: part.text });
      case "thought":
        return this.#delta({ reasoning_content: part.text });
      case "call": {
        const made = { name: part.name, arguments: "" };
        const call = {
          index: part.index,
          id: part.id,
          type: "function",
          function: made,
          ...extraContent(part.signature),
        };
        return this.#delta({ tool_calls: [call] });
      }
      case "arguments":
        return this.#delta({ tool_calls: [{ index: part.index, function: { arguments: part.json } }] });
      case "stop":
        return this.#delta({}, REASONS[part.reason]);
      case "usage":
        this.#counts = part.counts;
        return "";
      default:
        // The dialect has no place for signatures and encrypted thoughts.
        return "";
    }
  }

  #delta(delta: object, reason: string | null = null): string {
    return this.#chunk({ choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }] });
  }

  #chunk(fields: object): string {
    const head = { id: this.#id, object: "chat.completion.chunk", created: this.facts.created, model: this.#model };
    return `data: ${JSON.stringify({ ...head, ...fields })}\n\n`;
  }
}

const newId = (): string => `chatcmpl-${randomUUID().replaceAll("-", "")}`;

function messageOf(blocks: readonly Block[]): object {
  const text = blocks.flatMap((block) => (block.kind === "text" ? [block.text] : [])).join("");
  const thought = blocks.flatMap((block) => (block.kind === "thought" ? [block.text] : [])).join("");
  const calls = blocks.flatMap((block) =>
    block.kind === "call"
      ? [
          {
            id: block.id,
            type: "function",
            function: { name: block.name, arguments: block.json === "" ? "{}" : block.json },
            ...extraContent(block.signature),
          },
        ]
      : [],
  );
  return {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    refusal: null,
    ...(thought === "" ? {} : { reasoning_content: thought }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}
