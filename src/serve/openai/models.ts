/** GET /v1/models and /v1/models/:id. */
import { lengthFields, modelListObject, modelObject } from "../../core/model-list.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { resolveModelName } from "./model-name.js";
import { tagsObject } from "./model-tags.js";

function describeModel(context: ServeContext, name: string) {
  const { info } = context.engine;
  return {
    ...modelObject(name, context.createdAtSeconds),
    root: context.modelNames[0],
    parent: null,
    default_sampling_params: context.samplingDefaults ?? {},
    ...lengthFields(info.maxModelLen),
    tasks: info.tasks,
    // llama-server's field.
    aliases: context.modelNames,
    tags: [],
    meta: {
      n_ctx: info.maxModelLen,
      n_vocab: info.vocabSize,
      n_embd: info.embeddingWidth,
      n_params: info.numParameters,
      size: info.weightBytes,
    },
  };
}

export function listModels(c: AppContext, context: ServeContext): Response {
  const list = modelListObject(context.modelNames.map((name) => describeModel(context, name)));
  return c.json({ ...list, ...tagsObject(context) });
}

export function getModel(c: AppContext, context: ServeContext): Response {
  return c.json(describeModel(context, resolveModelName(context, c.req.param("id"))));
}
