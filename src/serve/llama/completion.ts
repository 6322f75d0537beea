/** llama-server's POST /completion, and the code that /infill shares with it. */
import { z } from "zod";
import { MAX_LOGPROBS } from "../../engine/api/request.js";
import { recipeText } from "../../text/answer/answer-recipe.js";
import type { GenerationRequest } from "../generation/generation.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type RequestTerms, requestTerms } from "../http/request-terms.js";
import { collectResults, streamResults } from "../http/respond.js";
import type { Aliases } from "../openai/aliases.js";
import type { Prompt } from "../openai/completion-prompts.js";
import { formOf } from "../openai/constraint.js";
import { type FieldRules, parseFields } from "../openai/fields.js";
import { LLAMA_INERT_FIELDS, LLAMA_UNSUPPORTED } from "../openai/llama-fields.js";
import { dryPenaltyOf } from "../openai/llama-samplers.js";
import { resolveModelName } from "../openai/model-name.js";
import { planChoices } from "../openai/sampling.js";
import {
  checked,
  integerIn,
  modelField,
  type SamplingFields,
  samplingShape,
  termsShape,
} from "../openai/schema-parts.js";
import { ChoiceTimings } from "../openai/timings.js";
import { sayUnenforced } from "../openai/unenforced.js";
import { type CompletionFacts, completionFrames, type Ended, endedObject } from "./completion-object.js";
import { biasesOf, biasField } from "./logit-bias.js";
import { encodeMixed, mixedPromptField } from "./mixed-prompts.js";
import { llamaSamplingShape, llamaSeeds, MAX_INT, samplingFieldsOf } from "./sampling-fields.js";

const MAX_WANTED = 64;
const wantedField = checked<readonly string[]>(
  `up to ${MAX_WANTED} names of fields`,
  (value) =>
    Array.isArray(value) &&
    value.length <= MAX_WANTED &&
    value.every((name) => typeof name === "string" && name !== ""),
);

/** Fields of both paths. */
export const llamaShape = {
  model: modelField.optional(),
  stream: z.boolean().optional(),
  n_predict: integerIn(-2, MAX_INT).optional(),
  ...llamaSamplingShape,
  ignore_eos: z.boolean().optional(),
  logit_bias: biasField.optional(),
  n_probs: integerIn(0, MAX_LOGPROBS).optional(),
  response_fields: wantedField.optional(),
  return_tokens: z.boolean().optional(),
  /** For each event of a stream. The last event, and a complete answer, always have timings. */
  timings_per_token: z.boolean().optional(),
  grammar: samplingShape.grammar,
  json_schema: samplingShape.json_schema,
  ...termsShape,
} as const;

/** Both names of the limit are accepted: llama-server's and OpenAI's. */
const limitAlias = (value: unknown) => [["n_predict", value]] as const;
export const LLAMA_ALIASES: Aliases = { max_tokens: limitAlias, max_completion_tokens: limitAlias };

const completionSchema = z.strictObject({ ...llamaShape, prompt: mixedPromptField });
export const LLAMA_COMPLETION_RULES: FieldRules<(typeof completionSchema)["shape"]> = {
  schema: completionSchema,
  aliases: LLAMA_ALIASES,
  inert: LLAMA_INERT_FIELDS,
  unsupported: LLAMA_UNSUPPORTED,
};

type SharedFields = z.output<z.ZodObject<typeof llamaShape>>;

function samplingOf(request: SharedFields, bias: Readonly<Record<string, number>> | undefined): SamplingFields {
  return {
    ...samplingFieldsOf(request),
    ignore_eos: request.ignore_eos,
    logit_bias: bias,
    return_token_ids: request.return_tokens === true || request.stream === true,
  };
}

/** The generation of each prompt, in the order of the prompts. */
async function plan(
  context: ServeContext,
  request: SharedFields,
  terms: RequestTerms,
  prompts: readonly Prompt[],
): Promise<GenerationRequest[]> {
  const fields = samplingOf(request, await biasesOf(context, request.logit_bias));
  const dry = await dryPenaltyOf(context, request);
  const form = formOf(request);
  const recipe = form === undefined ? undefined : recipeText(form);
  const limit = limitOf(request);
  const plans = prompts.map(({ ids }) => ({
    fields,
    terms,
    promptIds: ids,
    maxTokens: limit < 0 ? undefined : limit,
    maxTokensField: "n_predict",
    promptField: "prompt",
    numLogprobs: isScored(request) ? request.n_probs : undefined,
    numPromptLogprobs: undefined,
    dry,
    reading: undefined,
    recipe,
  }));
  return planChoices(context, plans, 1, llamaSeeds(request.seed, context.drawSeed));
}

/** Negative: as many tokens as fit. */
const limitOf = ({ n_predict = -1 }: SharedFields): number => n_predict;

const isScored = ({ n_probs = 0 }: SharedFields): boolean => n_probs > 0;

function factsOf(
  c: AppContext,
  context: ServeContext,
  request: SharedFields,
  prompt: Prompt,
  { engineRequest, stopStrings }: GenerationRequest,
): CompletionFacts {
  return {
    model: resolveModelName(context, request.model),
    prompt: prompt.text,
    numPromptTokens: prompt.ids.length,
    sampling: engineRequest.sampling,
    stops: stopStrings,
    numTokensAsked: limitOf(request),
    requestId: c.get("requestId"),
    isScored: isScored(request),
    maxModelLen: context.engine.info.maxModelLen,
    timesEach: request.timings_per_token === true,
    wanted: request.response_fields?.length === 0 ? undefined : request.response_fields,
  };
}

export async function respondAsLlama(
  c: AppContext,
  context: ServeContext,
  request: SharedFields,
  prompts: readonly Prompt[],
): Promise<Response> {
  const terms = requestTerms(c, context, request);
  const generations = await plan(context, request, terms, prompts);
  sayUnenforced(c, formOf(request));
  const facts = prompts.map((prompt, i) => factsOf(c, context, request, prompt, generations[i]!));
  const timings = prompts.map(({ ids }) => new ChoiceTimings(c.get("startMs"), ids.length));
  if (request.stream === true) {
    return streamResults(c, context, generations, terms, completionFrames(context.tokenizer, facts, timings));
  }
  const ended = prompts.map((): Ended | undefined => undefined);
  const { results } = await collectResults(c, context, generations, terms, (update, i) => {
    timings[i]!.update(update);
    if (update.end === undefined) return;
    ended[i] = { end: update.end, timings: timings[i]!, numEvicted: update.numEvictedTokens };
  });
  const objects = results.map(({ text, tokenIds, scored }, i) => {
    const output = { content: text, tokens: tokenIds, hasNewLine: text.includes("\n"), scored };
    return endedObject(context.tokenizer, facts[i]!, i, output, ended[i]!);
  });
  return c.json(objects.length === 1 ? objects[0]! : objects);
}

export async function llamaCompletion(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, LLAMA_COMPLETION_RULES, await readJsonObject(c, context.limits));
  const options = { addSpecial: true, keepSpecial: false, truncate: undefined };
  return respondAsLlama(c, context, request, await encodeMixed(context, request.prompt, options));
}
