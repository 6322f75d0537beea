/** Converts validated request fields to the engine's sampling parameters and the generation's text rules. */
import { MillraceError } from "../../core/errors.js";
import type { DryPenalty, EngineRequest, Pooling, SamplingParams } from "../../engine/api/request.js";
import type { SamplingDefaults } from "../../formats/sampling-defaults.js";
import { MAX_RECIPE_LENGTH } from "../../text/answer/answer-recipe.js";
import type { GenerationRequest } from "../generation/generation.js";
import type { ChoiceSeeds } from "../generation/seeds.js";
import type { PlanContext, ServeContext } from "../http/context.js";
import type { RequestTerms } from "../http/request-terms.js";
import type { ChatPlan } from "./chat-plan.js";
import { defaultsBeside, samplersOf } from "./llama-samplers.js";
import { contextExceeded } from "./prompt-size.js";
import type { SamplingFields } from "./schema-parts.js";

/** One prompt, and its choices' shared settings. */
interface GenerationPlan extends ChatPlan {
  readonly fields: SamplingFields;
  readonly terms: RequestTerms;
  /** Undefined: as many as the context allows. */
  readonly maxTokens: number | undefined;
  /** The field name in errors about maxTokens. */
  readonly maxTokensField: string;
  /** The field name in errors about the prompt. */
  readonly promptField: string;
  readonly numLogprobs: number | undefined;
  readonly numPromptLogprobs: number | undefined;
  /** Result of dryPenaltyOf; absent: off. */
  readonly dry?: DryPenalty | undefined;
  /** Result of badWordsOf; absent: none. */
  readonly badWords?: number[][] | undefined;
  /** Only the first choice computes the prompt's log-probabilities, since they are the same for all choices. */
  readonly scoresPromptOnce?: boolean;
  /** Requests an embedding of the prompt instead of an answer. */
  readonly pooling?: Pooling;
  /** Position of the second text's first token, for pairs of texts. */
  readonly secondTextStart?: number | undefined;
}

/**
 * The limit of output tokens: the requested number, at most the rest of the context; without a requested number, at
 * most
 * the capacity of the KV memory as well. The prompt itself is never cut.
 */
function resolveMaxTokens(plan: GenerationPlan, info: PlanContext["engine"]["info"]): number {
  const { maxModelLen } = info;
  const numPromptTokens = plan.promptIds.length;
  const tokensLeft = maxModelLen - numPromptTokens;
  const kvTokensLeft = info.numKvBlocks * info.blockSize - numPromptTokens;
  const wanted = plan.maxTokens ?? Math.max(Math.min(tokensLeft, kvTokensLeft), 1);
  if (tokensLeft < 0 || (tokensLeft === 0 && wanted > 0)) {
    throw contextExceeded(maxModelLen, numPromptTokens, wanted, plan.promptField);
  }
  return Math.min(wanted, tokensLeft);
}

/** The tokens of each word at the start of a text and, if different, after a blank. */
export async function badWordsOf(
  { asyncTokenizer }: Pick<ServeContext, "asyncTokenizer">,
  words: readonly string[] | undefined,
): Promise<number[][] | undefined> {
  if (words === undefined) return undefined;
  const texts = words.flatMap((word) => [word.trimStart(), ` ${word.trimStart()}`]);
  const encoded = await asyncTokenizer.encode(texts, { addSpecial: false, parseSpecial: false });
  const idsOf = (index: number) => Array.from(encoded[index]!.ids);
  return words.flatMap((_, index) => {
    const [plain, spaced] = [idsOf(2 * index), idsOf(2 * index + 1)];
    const isAnother = spaced.length === plain.length && spaced[0] !== plain[0];
    return [plain, spaced].filter((ids, form) => ids.length > 0 && (form === 0 || isAnother));
  });
}

/** A request's field wins, unless its value is undefined. */
function withDefaults(fields: SamplingFields, defaults: SamplingDefaults = {}): SamplingFields {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return { ...defaultsBeside(fields.temperature, defaults), ...Object.fromEntries(given) };
}

function toSamplingParams(context: PlanContext, plan: GenerationPlan): Omit<SamplingParams, "seed"> {
  const fields = withDefaults(plan.fields, context.samplingDefaults);
  const maxTokens = resolveMaxTokens(plan, context.engine.info);
  const minTokens = fields.min_tokens ?? 0;
  if (plan.maxTokens !== undefined && minTokens > plan.maxTokens) {
    throw new MillraceError(
      "invalid_parameter",
      `min_tokens: expected at most ${plan.maxTokensField} (${plan.maxTokens}), got ${minTokens}`,
      { param: "min_tokens" },
    );
  }
  const logitBias = Object.entries(fields.logit_bias ?? {}).map(([id, bias]) => [Number(id), bias] as const);
  // An empty nucleus still contains the likeliest token.
  const topP = fields.top_p ?? 1;
  const isTopOnly = topP === 0;
  const modelStops = fields.ignore_eos === true ? [] : context.tokenizer.stopIds;
  return {
    temperature: fields.temperature ?? 1,
    topK: isTopOnly ? 1 : Math.max(fields.top_k ?? 0, 0),
    topP: isTopOnly ? 1 : topP,
    minP: fields.min_p ?? 0,
    presencePenalty: fields.presence_penalty ?? 0,
    frequencyPenalty: fields.frequency_penalty ?? 0,
    repetitionPenalty: fields.repetition_penalty ?? 1,
    ...samplersOf(fields),
    dry: plan.dry,
    maxTokens,
    minTokens: Math.min(minTokens, maxTokens),
    stopTokenIds: [...new Set([...modelStops, ...(fields.stop_token_ids ?? [])])],
    logitBias,
    allowedTokenIds: fields.allowed_token_ids,
    badWords: plan.badWords,
    thought: plan.thought,
    numLogprobs: plan.numLogprobs,
    numPromptLogprobs: plan.numPromptLogprobs,
  };
}

/**
 * The limit for log-probabilities of prompt tokens in one request, counting all candidates per position: they stay in
 * memory until the answer is complete, at about 400 bytes each.
 */
const MAX_PROMPT_LOGPROBS = 1_000_000;

function assertFewLogprobs(requests: readonly GenerationRequest[]): void {
  const numOf = ({ engineRequest: { promptIds, sampling } }: GenerationRequest): number =>
    sampling.numPromptLogprobs === undefined ? 0 : promptIds.length * (1 + sampling.numPromptLogprobs);
  const numWanted = requests.reduce((sum, request) => sum + numOf(request), 0);
  if (numWanted <= MAX_PROMPT_LOGPROBS) return;
  throw new MillraceError(
    "invalid_parameter",
    `expected at most ${MAX_PROMPT_LOGPROBS} log-probabilities of prompt tokens, got ${numWanted}`,
    { hint: "Send fewer prompts at once, or ask for fewer tokens at each place." },
  );
}

/** The engine request of one choice. */
function engineRequestOf(plan: GenerationPlan, sampling: SamplingParams): EngineRequest {
  const { promptIds, pooling, secondTextStart, recipe } = plan;
  const { tenant, priority, isBackground, cacheSalt } = plan.terms;
  return {
    promptIds,
    sampling,
    tenant,
    priority,
    ...(isBackground ? { isBackground } : {}),
    ...(cacheSalt === undefined ? {} : { cacheSalt }),
    ...(pooling === undefined ? {} : { pooling }),
    ...(secondTextStart === undefined ? {} : { secondTextStart }),
    ...(recipe === undefined ? {} : { constraint: { recipe } }),
  };
}

/**
 * The generations of a request: all choices of the first prompt, then of the next. Refuses a request whose prompts
 * together exceed a limit.
 */
export function planChoices(
  context: PlanContext,
  plans: readonly GenerationPlan[],
  numChoices: number,
  seeds: ChoiceSeeds,
): GenerationRequest[] {
  const requests = plans.flatMap((plan, index) => choicesOf(context, plan, numChoices, seeds, index * numChoices));
  assertFewLogprobs(requests);
  assertShortRecipes(requests);
  return requests;
}

/** @param firstChoice the index of the prompt's first choice among all choices of the request */
function choicesOf(
  context: PlanContext,
  plan: GenerationPlan,
  numChoices: number,
  seeds: ChoiceSeeds,
  firstChoice: number,
): GenerationRequest[] {
  const { fields, promptIds, recipe } = plan;
  if (promptIds.length === 0) {
    throw new MillraceError("empty_prompt", "expected a prompt of at least one token, got none", {
      param: plan.promptField,
    });
  }
  if (recipe !== undefined && fields.ignore_eos === true) {
    throw new MillraceError(
      "invalid_parameter",
      "ignore_eos: expected false beside a required form of the answer, which ends with the model's end token, got true",
      { param: "ignore_eos" },
    );
  }
  const sampling = toSamplingParams(context, plan);
  const stops = fields.stop === undefined ? [] : typeof fields.stop === "string" ? [fields.stop] : fields.stop;
  return Array.from({ length: numChoices }, (_, index) => ({
    engineRequest: engineRequestOf(plan, {
      ...sampling,
      seed: seeds(firstChoice + index),
      numPromptLogprobs: plan.scoresPromptOnce === true && index > 0 ? undefined : plan.numPromptLogprobs,
    }),
    stopStrings: stops,
    isStopIncluded: fields.include_stop_str_in_output ?? false,
    keepSpecial: fields.skip_special_tokens === false,
    reading: plan.reading,
    reportsTokenIds: fields.return_token_ids === true,
  }));
}

/** The limit for all recipes of a request, since each sequence sends a copy to the engine. */
const MAX_RECIPES_LENGTH = 16 * MAX_RECIPE_LENGTH;

function assertShortRecipes(requests: readonly GenerationRequest[]): void {
  const length = requests.reduce((sum, { engineRequest }) => sum + (engineRequest.constraint?.recipe.length ?? 0), 0);
  if (length <= MAX_RECIPES_LENGTH) return;
  throw new MillraceError(
    "invalid_grammar",
    `expected schemas, patterns, choices or grammars of at most ${MAX_RECIPES_LENGTH} characters over all prompts and choices, got ${length}`,
    { hint: "Send fewer prompts at once, or ask for fewer choices." },
  );
}

export function assertNumSequences(context: ServeContext, numPrompts: number, numChoices: number): void {
  const { maxChoices, maxSequencesPerRequest } = context.limits;
  if (numChoices > maxChoices) {
    throw new MillraceError("invalid_parameter", `n: expected at most ${maxChoices}, got ${numChoices}`, {
      param: "n",
    });
  }
  if (numPrompts * numChoices <= maxSequencesPerRequest) return;
  const param = numPrompts === 1 ? "n" : "prompt";
  throw new MillraceError(
    "invalid_parameter",
    `${param}: expected at most ${maxSequencesPerRequest} prompts × choices, got ${numPrompts} × ${numChoices}`,
    { param },
  );
}
