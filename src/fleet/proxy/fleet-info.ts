/** What the fleet tells of itself to clients: its models, and how many instances of each are ready. */
import { MillraceError } from "../../core/errors.js";
import { modelListObject, modelObject } from "../../core/model-list.js";
import type { UpstreamPool } from "../upstream/upstream.js";

const describeModel = (id: string) => modelObject(id, 0);

/** @param path /v1/models, or one model's below it (whose name may contain slashes) */
export function modelList(models: readonly string[], path: string): object {
  if (path === "/v1/models") return modelListObject(models.map(describeModel));
  const encoded = path.slice("/v1/models/".length);
  const id = models.find((model) => model === encoded || encodeURIComponent(model) === encoded);
  if (id !== undefined) return describeModel(id);
  throw new MillraceError(
    "model_not_found",
    `expected the model to be one of ${models.join(", ")}, got ${JSON.stringify(encoded.slice(0, 80))}`,
    { param: "model" },
  );
}

interface FleetHealth {
  readonly isTakingRequests: boolean;
  readonly body: object;
}

/**
 * @param modelOf what a name stands for: a model is told of once, whatever its aliases
 * @param startsOnDemand whether a model is loaded when it is asked for: that nothing of it is ready is no fault then
 */
export function fleetHealth(
  pool: UpstreamPool,
  modelOf: (name: string) => string,
  isDraining: boolean,
  startsOnDemand: (model: string) => boolean,
): FleetHealth {
  const names = [...new Set(pool.models().map(modelOf))];
  const models = names.map((model) => {
    const states: Partial<Record<string, number>> = {};
    for (const { state } of pool.upstreams(model)) states[state] = (states[state] ?? 0) + 1;
    return { model, instances: states };
  });
  type Model = (typeof models)[number];
  const isWell = ({ model, instances }: Model) => (instances.ready ?? 0) > 0 || startsOnDemand(model);
  // A suspect one is late with an answer, which is a matter of seconds: requests wait for it.
  const isTakingRequests = !isDraining && models.some((model) => isWell(model) || (model.instances.suspect ?? 0) > 0);
  const isWhole = models.every(isWell);
  const status = isDraining ? "draining" : !isTakingRequests ? "unavailable" : isWhole ? "ok" : "degraded";
  return { isTakingRequests, body: { status, models } };
}
