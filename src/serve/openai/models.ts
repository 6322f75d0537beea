/** GET /v1/models and /v1/models/:id. */
import { lengthFields, modelListObject, modelObject } from "../../core/model-list.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { resolveModelName } from "./model-name.js";

function describeModel(context: ServeContext, name: string) {
  return {
    ...modelObject(name, context.createdAtSeconds),
    root: context.modelNames[0],
    parent: null,
    default_sampling_params: context.samplingDefaults ?? {},
    ...lengthFields(context.engine.info.maxModelLen),
    tasks: context.engine.info.tasks,
  };
}

export function listModels(c: AppContext, context: ServeContext): Response {
  return c.json(modelListObject(context.modelNames.map((name) => describeModel(context, name))));
}

export function getModel(c: AppContext, context: ServeContext): Response {
  return c.json(describeModel(context, resolveModelName(context, c.req.param("id"))));
}
