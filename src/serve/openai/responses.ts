/** /v1/responses: answers, and their storage for requests that continue them. */
import { randomUUID } from "node:crypto";
import type { WholeResponse } from "../../core/response-objects.js";
import type { ScoredToken } from "../generation/generation.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { requestTerms } from "../http/request-terms.js";
import { collectResults, streamResults } from "../http/respond.js";
import { parseFields } from "./fields.js";
import { chatLogprobs } from "./logprobs.js";
import { resolveModelName } from "./model-name.js";
import { responseFrames } from "./response-events.js";
import { type ResponseFacts, wholeResponse } from "./response-objects.js";
import {
  numTopLogprobsOf,
  planResponse,
  RESPONSE_RULES,
  type ResponseRequest,
  responsePromptIds,
} from "./response-request.js";
import { formOfResponse } from "./response-text.js";
import { leftOutTools } from "./response-tools.js";
import { sayUnenforced } from "./unenforced.js";

type Facts = Omit<ResponseFacts, "model" | "numPromptTokens" | "previousId" | "isToBeStored">;

function factsOf(context: ServeContext, request: ResponseRequest): Facts {
  const numTopLogprobs = numTopLogprobsOf(request);
  return {
    id: `resp_${randomUUID().replaceAll("-", "")}`,
    createdAtSeconds: Math.floor(Date.now() / 1000),
    instructions: request.instructions ?? null,
    maxOutputTokens: request.max_output_tokens ?? null,
    temperature: request.temperature ?? context.samplingDefaults?.temperature ?? 1,
    topP: request.top_p ?? context.samplingDefaults?.top_p ?? 1,
    presencePenalty: request.presence_penalty ?? context.samplingDefaults?.presence_penalty ?? 0,
    frequencyPenalty: request.frequency_penalty ?? context.samplingDefaults?.frequency_penalty ?? 0,
    tools: request.tools ?? [],
    toolChoice: request.tool_choice ?? "auto",
    isParallel: request.parallel_tool_calls ?? true,
    effort: request.reasoning?.effort ?? null,
    textFormat: request.text?.format ?? { type: "text" },
    truncation: request.truncation ?? "disabled",
    metadata: request.metadata ?? {},
    numTopLogprobs,
    logprobs: (said: readonly ScoredToken[]) =>
      numTopLogprobs === undefined ? [] : chatLogprobs(context.tokenizer, said, false).content,
  };
}

export async function responses(c: AppContext, context: ServeContext): Promise<Response> {
  const body = await readJsonObject(c, context.limits);
  const turn = context.responses.open(c.get("tenant") ?? "", body);
  const request = parseFields(c, context, RESPONSE_RULES, turn?.body ?? body);
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const generations = await planResponse(c, context, request, terms);
  sayUnenforced(c, formOfResponse(request), leftOutTools(request.tools));
  const facts: ResponseFacts = {
    ...factsOf(context, request),
    model,
    numPromptTokens: generations[0]!.engineRequest.promptIds.length,
    previousId: turn?.previousId ?? null,
    isToBeStored: turn?.isToBeStored === true,
  };
  const finish = (response: WholeResponse) => turn?.finish(response) ?? response;
  if (request.stream === true) {
    const frames = responseFrames(facts, c.get("requestId"), finish);
    return streamResults(c, context, generations, terms, frames);
  }
  const { results, totals } = await collectResults(c, context, generations, terms);
  return c.json(finish(wholeResponse(facts, results[0]!, totals)));
}

/** POST /v1/responses/input_tokens: the number of tokens in the prompt that /v1/responses would build. */
export async function inputTokens(c: AppContext, context: ServeContext): Promise<Response> {
  const body = await readJsonObject(c, context.limits);
  const turn = context.responses.open(c.get("tenant") ?? "", body, { isGeneration: false });
  const request = parseFields(c, context, RESPONSE_RULES, turn?.body ?? body);
  resolveModelName(context, request.model);
  const { length } = await responsePromptIds(c, context, request);
  return c.json({ object: "response.input_tokens", input_tokens: length });
}

/** A stored response: its answer, its input, and its deletion. */
export function storedResponse(c: AppContext, context: ServeContext): Response {
  const answer = context.responses.answer(c.get("tenant") ?? "", c.req.method, c.req.url);
  return answer === undefined ? (c.notFound() as Response) : c.json(answer);
}
