/**
 * A model behind a server that scores and continues texts: `/v1/completions` with `echo`, and vLLM's `/tokenize` and
 * `/tokenizer_info`.
 */
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { allGreedy, type TextModel, type TokenPrediction } from "./harness/text-model.js";

/** Sends a request, and reads the answer by the schema. @param path from the server's root */
export type CallServer = <T>(
  schema: z.ZodType<T>,
  path: string,
  body: object | undefined,
  signal: AbortSignal,
) => Promise<T>;

const tokenText = z
  .union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)])
  .nullish();
const infoSchema = z.object({ bos_token: tokenText, eos_token: tokenText });
const tokensSchema = z.object({ tokens: z.array(z.int()), max_model_len: z.int() });
const scoresSchema = z.object({
  choices: z
    .array(
      z.object({
        logprobs: z.object({
          token_logprobs: z.array(z.number().nullable()),
          top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
        }),
      }),
    )
    .min(1),
});
const textSchema = z.object({
  choices: z.array(z.object({ text: z.string(), finish_reason: z.enum(["stop", "length"]) })).min(1),
  usage: z.object({ prompt_tokens: z.int(), completion_tokens: z.int() }),
});

/** vLLM's form, by token id. */
const promptScoresSchema = z.object({
  choices: z
    .array(
      z.object({
        prompt_logprobs: z.array(z.record(z.string(), z.object({ logprob: z.number() })).nullable()).nullish(),
      }),
    )
    .min(1),
});

const unable = (what: string, cause?: Error): MillraceError =>
  new MillraceError(
    "endpoint_failed",
    `expected a server that gives ${what}, got none${cause ? `: ${cause.message}` : ""}`,
    {
      hint: "task files need echo and logprobs in /v1/completions, --text-file prompt_logprobs or echo with return_tokens_as_token_ids, and both /tokenize and /tokenizer_info, as millrace and vLLM have them",
      cause,
    },
  );

/** Throws endpoint_failed if the server lacks one of these endpoints. */
export async function remoteTexts(
  model: string,
  seed: number,
  call: CallServer,
  signal: AbortSignal,
): Promise<TextModel> {
  const tokensOf = (prompt: string) =>
    call(tokensSchema, "/tokenize", { model, prompt, add_special_tokens: false }, signal);
  const { bos_token: bos, eos_token: eos } = await call(infoSchema, "/tokenizer_info", undefined, signal).catch(
    (cause: Error) => {
      throw unable("special tokens at /tokenizer_info", cause);
    },
  );
  const { tokens, max_model_len: maxLength } = await tokensOf(bos ?? eos ?? "");
  return {
    maxLength,
    prefixId: tokens[0] ?? 0,
    encode: async (text) => (text === "" ? [] : (await tokensOf(text)).tokens),
    score: async (prompt, numContext, stop) => {
      // One token is generated, as some servers require; its scores follow those of the prompt.
      const body = { model, prompt, temperature: 0, max_tokens: 1, logprobs: 1, echo: true };
      const { choices } = await call(scoresSchema, "/v1/completions", body, stop);
      const { token_logprobs: own, top_logprobs: top } = choices[0]!.logprobs;
      const scored = prompt.slice(numContext).map((_, index) => {
        const [logprob, best] = [own[numContext + index], top[numContext + index]];
        if (logprob == null || best == null) throw unable(`log-probabilities of ${prompt.length} tokens of a prompt`);
        return { logprob, best: Math.max(...Object.values(best)) };
      });
      return allGreedy(scored);
    },
    predict: predictor(model, call),
    continue: async (prompt, { maxTokens, temperature, topP, stop: ends }, stop) => {
      const sampling = { max_tokens: maxTokens, temperature, top_p: topP, seed };
      const body = { model, prompt, ...sampling, ...(ends.length === 0 ? {} : { stop: ends }) };
      const { choices, usage } = await call(textSchema, "/v1/completions", body, stop);
      const { text, finish_reason: end } = choices[0]!;
      return { text, end, numPromptTokens: usage.prompt_tokens, numOutputTokens: usage.completion_tokens };
    },
  };
}

/**
 * Reads vLLM's `prompt_logprobs` or, for other servers, `echo` with ids as token names. The first answer decides for
 * all later ones.
 */
function predictor(model: string, call: CallServer): TextModel["predict"] {
  let isEchoed = false;
  return async (prompt, numTop, stop) => {
    const own = isEchoed ? undefined : await askedFor(prompt, numTop, stop);
    isEchoed = own === undefined;
    return own ?? (await echoed(prompt, numTop, stop));
  };

  async function askedFor(prompt: readonly number[], numTop: number, stop: AbortSignal) {
    const body = { model, prompt, temperature: 0, max_tokens: 1, prompt_logprobs: numTop };
    const answer = await call(promptScoresSchema, "/v1/completions", body, stop).catch((thrown: unknown) => {
      // A server may refuse an unknown field.
      if (thrown instanceof MillraceError && thrown.code === "invalid_request") return undefined;
      throw thrown;
    });
    const scores = answer?.choices[0]?.prompt_logprobs ?? undefined;
    return (
      scores &&
      readPredictions(prompt, (index) => {
        const byId = scores[index];
        return byId && Object.fromEntries(Object.entries(byId).map(([id, { logprob }]) => [id, logprob]));
      })
    );
  }

  async function echoed(prompt: readonly number[], numTop: number, stop: AbortSignal) {
    const ids = { return_tokens_as_token_ids: true };
    const body = { model, prompt, temperature: 0, max_tokens: 1, logprobs: numTop, echo: true, ...ids };
    const { choices } = await call(scoresSchema, "/v1/completions", body, stop).catch((cause: Error) => {
      throw stop.aborted ? cause : unable("log-probabilities of a prompt's tokens", cause);
    });
    const { token_logprobs: own, top_logprobs: top } = choices[0]!.logprobs;
    return readPredictions(prompt, (index) => {
      const [logprob, likeliest] = [own[index], top[index]];
      if (logprob == null || likeliest == null) return undefined;
      const byId = Object.entries(likeliest).map(([name, each]) => [idIn(name), each]);
      return { ...Object.fromEntries(byId), [String(prompt[index])]: logprob };
    });
  }
}

/** Refuses texts as token names, which could pass for ids or name tokens that no other model has. */
function idIn(name: string): string {
  const id = /^token_id:(\d+)$/.exec(name)?.[1];
  if (id === undefined) throw unable("ids of the likeliest tokens (return_tokens_as_token_ids)");
  return id;
}

/** Throws endpoint_failed if the prediction of a token is missing. @param knownAt by the position in the prompt */
function readPredictions(
  prompt: readonly number[],
  knownAt: (index: number) => Readonly<Record<string, number>> | null | undefined,
): TokenPrediction[] {
  return prompt.slice(1).map((id, index) => {
    const known = knownAt(index + 1);
    const logprob = known?.[String(id)];
    if (known == null || logprob === undefined)
      throw unable(`log-probabilities of ${prompt.length} tokens of a prompt`);
    return { logprob, known };
  });
}
