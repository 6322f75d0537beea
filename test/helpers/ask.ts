/**
 * Sends one request to the HTTP application, without a socket and in front of a fake engine, and gives the answer its
 * type.
 */
import { createApp } from "../../src/serve/app.js";
import type { AppOptions } from "../../src/serve/http/context.js";
import { grammarOfRecipe } from "../../src/text/answer/answer-recipe.js";
import type { FakeEngineOptions } from "./fake-engine.js";
import { type FakeApp, fakeAppOptions } from "./fake-server.js";
import { EOS_ID, fakeTokenizer } from "./fake-tokenizer.js";

/** A list whose length the test that reads it knows. */
type Known<T> = readonly [T, T, T, T, ...T[]];

interface CallShown {
  readonly id: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

interface ChoiceShown {
  readonly index: number;
  readonly text: string;
  readonly message: { readonly content: string | null; readonly tool_calls: Known<CallShown> };
  readonly finish_reason: string;
  readonly stop_reason: unknown;
  readonly logprobs: Readonly<
    Record<"content" | "tokens" | "token_logprobs" | "top_logprobs" | "text_offset", unknown>
  >;
  readonly prompt_logprobs: unknown;
}

/** The fields that tests look at, of all APIs; those of the one that answered are there. */
interface AnswerBody {
  readonly error: { readonly message: string; readonly code: string; readonly param: string | null };
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly completion_tokens_details: unknown;
    readonly output_tokens: number;
    readonly output_tokens_details: unknown;
  };
  /** Chat and completions. */
  readonly choices: Known<ChoiceShown>;
  /** Responses. */
  readonly output: Known<{ readonly type: string; readonly call_id: string }>;
  readonly text: unknown;
  readonly reasoning: unknown;
  /** Messages. */
  readonly content: Known<{ readonly type: string; readonly id: string }>;
  readonly stop_reason: string;
  readonly input_tokens: number;
  /** Tokenize and detokenize. */
  readonly tokens: readonly number[];
  readonly prompt: string;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: AnswerBody;
  /** What the engine was given to go on with; "" where it was given nothing. */
  readonly prompt: string;
  /** In EBNF, where the answer was held to one. */
  readonly grammar: string | undefined;
  readonly fake: FakeApp;
}

/** @param body as it is where it is text */
export async function ask(
  path: string,
  body: unknown,
  engineOptions: FakeEngineOptions = {},
  overrides: Partial<AppOptions> = {},
): Promise<Answer> {
  const fake = fakeAppOptions(engineOptions, overrides);
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await createApp(fake.options).request(path, { method: "POST", body: text });
  const [submitted] = fake.engine.submitted;
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as AnswerBody,
    prompt: submitted === undefined ? "" : fakeTokenizer.decode(submitted.promptIds, { keepSpecial: true }),
    grammar: submitted?.constraint === undefined ? undefined : grammarOfRecipe(submitted.constraint.recipe),
    fake,
  };
}

/** A script that writes this text and ends. */
export const writing = (text: string) => ({ script: () => [...Buffer.from(text), EOS_ID] });
