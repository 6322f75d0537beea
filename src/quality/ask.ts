/** A model in the view of evaluation and distillation: it answers chats, in this process or behind a URL. */
import { createHash } from "node:crypto";
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import type { Continued } from "./harness/text-model.js";

export const messageSchema = z
  .object({ role: z.enum(["system", "user", "assistant"]), content: z.string() })
  .readonly();

export type Message = z.infer<typeof messageSchema>;

/** A tool in OpenAI's form. */
export const toolSchema = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject({ name: z.string().min(1) }),
});

export type Tool = z.infer<typeof toolSchema>;

/** A model's call of a tool. */
export interface ToolCall {
  readonly name: string;
  /** JSON in the model's own spelling. */
  readonly arguments: string;
}

export interface AskedAnswer extends Continued {
  /** Absent: the text contains the calls, unparsed. */
  readonly calls?: readonly ToolCall[] | undefined;
}

/** The prompt of an answer, and the reason why the answer ended. */
export interface Asked {
  readonly prompt: readonly Message[];
  readonly end: AskedAnswer["end"];
  readonly calls?: AskedAnswer["calls"];
}

/** Throws a refusal for a prompt that cannot be answered, and another error when the model is gone. */
export type Ask = (messages: readonly Message[], signal: AbortSignal, tools?: readonly Tool[]) => Promise<AskedAnswer>;

const REFUSALS: readonly string[] = [
  "context_length_exceeded",
  "kv_capacity_exceeded",
  "template_failed",
  "invalid_request",
];

/** Whether the error is the refusal of a single prompt, after which others can continue. */
export const isRefusal = (thrown: unknown): thrown is MillraceError =>
  thrown instanceof MillraceError && REFUSALS.includes(thrown.code);

/** The first 128 bits of SHA-256 over roles and contents, in hexadecimal. */
export function promptId(messages: readonly { readonly role: string; readonly content: string }[]): string {
  const text = JSON.stringify(messages.map(({ role, content }) => [role, content]));
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

/**
 * The sampling seed of one prompt, in [0, 2^31): with one seed for all, prompts of equal length would draw the same
 * numbers.
 */
export function seedOf(seed: number, messages: Parameters<typeof promptId>[0]): number {
  return (
    createHash("sha256")
      .update(`${seed} ${promptId(messages)}`)
      .digest()
      .readUInt32LE() >>> 1
  );
}

/**
 * Runs `concurrency` items at a time. After a failure no further item begins; the first failure is thrown once all
 * running items have ended.
 */
export async function runAll<T>(
  items: readonly T[],
  concurrency: number,
  run: (item: T, index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const failures: unknown[] = [];
  const work = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const index = next++;
      await run(items[index]!, index).catch((thrown: unknown) => failures.push(thrown));
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work));
  if (failures.length > 0) throw failures[0];
}
