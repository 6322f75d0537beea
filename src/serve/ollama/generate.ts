/** POST /api/generate: one prompt, as a separate chat or raw. */
import { z } from "zod";
import { recipeText } from "../../text/answer/answer-recipe.js";
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type ChatPlan, planChat } from "../openai/chat-plan.js";
import { encodePrompts, infillPrompts } from "../openai/completion-prompts.js";
import { type FieldRules, isEmptyArray, isOneOf, parseFields } from "../openai/fields.js";
import { resolveModelName } from "../openai/model-name.js";
import { sayUnenforced } from "../openai/unenforced.js";
import { answer, answerLoaded } from "./answer.js";
import { assertNoImages, formOf, generationShape, thinkingFields } from "./fields.js";
import type { LineShape } from "./frames.js";

const schema = z.strictObject({
  ...generationShape,
  prompt: z.string().optional(),
  suffix: z.string().optional(),
  system: z.string().optional(),
  raw: z.boolean().optional(),
  images: z.unknown().optional(),
});

type GenerateRequest = z.output<typeof schema>;

export const GENERATE_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set(),
  ignoresUnknown: true,
  unsupported: { template: isOneOf(""), context: isEmptyArray },
};

const shape: LineShape = ({ content, thinking }) => ({ response: content, ...(thinking === "" ? {} : { thinking }) });

/** The prompt's own tokens, or the tokens of a gap between prompt and suffix. */
async function planRaw(
  context: ServeContext,
  request: GenerateRequest,
  form: AnswerForm | undefined,
): Promise<ChatPlan> {
  const { prompt = "", suffix = "" } = request;
  const encoded = await encodePrompts(context, prompt, {
    addSpecial: suffix === "",
    keepSpecial: false,
    truncate: undefined,
  });
  const prompts = suffix === "" ? encoded : await infillPrompts(context, encoded, { suffix, addSpecial: true });
  return { promptIds: prompts[0]!.ids, reading: undefined, recipe: form === undefined ? undefined : recipeText(form) };
}

async function planTemplated(
  context: ServeContext,
  request: GenerateRequest,
  form: AnswerForm | undefined,
): Promise<ChatPlan> {
  const { prompt = "", system = "" } = request;
  const messages = [...(system === "" ? [] : [{ role: "system", content: system }]), { role: "user", content: prompt }];
  return await planChat(context, messages, { ...thinkingFields(request, context), promptField: "prompt" }, form);
}

export async function generate(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, GENERATE_RULES, await readJsonObject(c, context.limits));
  const options = { model: request.model ?? resolveModelName(context, undefined), shape, promptField: "prompt" };
  resolveModelName(context, request.model);
  assertNoImages(request.images, "images");
  const { prompt = "", suffix = "", raw } = request;
  if (prompt === "" && suffix === "") return answerLoaded(c, context, request, options);
  const form = formOf(request);
  // A model without a template gets every prompt unchanged, as in Ollama.
  const isRaw = raw === true || suffix !== "" || context.chatTemplate === undefined;
  const plan = await (isRaw ? planRaw : planTemplated)(context, request, form);
  sayUnenforced(c, form);
  return answer(c, context, request, plan, options);
}
