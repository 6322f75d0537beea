/** Runs a planned request of Ollama's API, and answers it. */
import { AnswerClock } from "../generation/answer-clock.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { requestTerms } from "../http/request-terms.js";
import { collectResults, streamResults } from "../http/respond.js";
import { llamaSeeds } from "../llama/sampling-fields.js";
import type { ChatPlan } from "../openai/chat-plan.js";
import { dryPenaltyOf } from "../openai/llama-samplers.js";
import { chatLogprobs } from "../openai/logprobs.js";
import { planChoices } from "../openai/sampling.js";
import { type GenerationFields, maxTokensOf, samplingOf } from "./fields.js";
import { type AnswerFacts, answerFrames, answerObject, type LineShape, loadedObject } from "./frames.js";

interface AnswerOptions {
  readonly model: string;
  readonly shape: LineShape;
  /** The request's field for errors about the prompt. */
  readonly promptField: string;
}

function factsOf(
  c: AppContext,
  context: ServeContext,
  { model, shape }: AnswerOptions,
  numPromptTokens: number,
): AnswerFacts {
  const logprobs: AnswerFacts["logprobs"] = (said) =>
    said.length === 0 ? {} : { logprobs: chatLogprobs(context.tokenizer, said, false).content };
  return { model, shape, logprobs, numPromptTokens, startMs: c.get("startMs"), requestId: c.get("requestId") };
}

export async function answer(
  c: AppContext,
  context: ServeContext,
  request: GenerationFields,
  plan: ChatPlan,
  options: AnswerOptions,
): Promise<Response> {
  const terms = requestTerms(c, context, {});
  const fields = samplingOf(request);
  const generations = planChoices(
    context,
    [
      {
        ...plan,
        terms,
        fields,
        dry: await dryPenaltyOf(context, fields),
        maxTokens: maxTokensOf(request),
        maxTokensField: "options.num_predict",
        promptField: options.promptField,
        numLogprobs: request.logprobs === true ? (request.top_logprobs ?? 0) : undefined,
        numPromptLogprobs: undefined,
      },
    ],
    1,
    llamaSeeds(request.options?.seed, context.drawSeed),
  );
  const facts = factsOf(c, context, options, plan.promptIds.length);
  if (request.stream !== false) return streamResults(c, context, generations, terms, answerFrames(facts));
  const clock = new AnswerClock(facts.startMs);
  const { results, totals } = await collectResults(c, context, generations, terms, (update) => clock.update(update));
  return c.json(answerObject(facts, results[0]!, clock, totals));
}

/** Answers a request without a prompt, with which clients load or unload a model; this server does neither. */
export function answerLoaded(
  c: AppContext,
  context: ServeContext,
  request: GenerationFields,
  options: AnswerOptions,
): Response {
  c.get("note").answered();
  const object = loadedObject(factsOf(c, context, options, 0), request.keep_alive === 0 || request.keep_alive === "0");
  if (request.stream === false) return c.json(object);
  return c.body(`${JSON.stringify(object)}\n`, 200, { "Content-Type": "application/x-ndjson" });
}
