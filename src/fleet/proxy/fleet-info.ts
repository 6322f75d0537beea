/** The fleet's own endpoints for clients: its list of models, and its health. */
import { MillraceError } from "../../core/errors.js";
import { lengthFields, modelListObject, modelObject, STARTED_AT_SECONDS } from "../../core/model-list.js";
import type { PromptFacts } from "../../gateway/budget/estimate.js";
import type { UpstreamPool } from "../upstream/upstream.js";

/**
 * @param path /v1/models, or /v1/models/<name>, where the name may contain slashes
 * @param modelOf resolves a name to a model, which is the name's `root`, as in vLLM's list
 * @param pool its instances report their longest request; the shortest of a model's lengths counts, since any may get
 *   the
 * request
 */
export function modelList(
  models: readonly string[],
  path: string,
  pool: UpstreamPool,
  modelOf: (name: string) => string,
): object {
  const describeModel = (id: string) => {
    const length = maxModelLenOf(id, pool);
    const ofModel = { ...modelObject(id, STARTED_AT_SECONDS), root: modelOf(id), parent: null };
    return length === undefined ? ofModel : { ...ofModel, ...lengthFields(length) };
  };
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

/** The longest request that every instance accepts, in tokens; undefined: none reports it. */
export function maxModelLenOf(model: string, pool: UpstreamPool): number | undefined {
  const lengths = pool.upstreams(model).flatMap(({ capacity }) => capacity.maxModelLen ?? []);
  return lengths.length === 0 ? undefined : Math.min(...lengths);
}

/** The maximum over all instances of the models. If an instance reports no length, prompts have no bound. */
export function promptFactsOf(models: readonly string[], pool: UpstreamPool): PromptFacts {
  let [longest, template, isBounded] = [-1, -1, true];
  // Runs for each request with limits, so it allocates no lists.
  for (const model of models) {
    for (const { capacity } of pool.upstreams(model)) {
      const { maxModelLen, templateTokens = -1 } = capacity;
      if (maxModelLen === undefined) isBounded = false;
      else longest = Math.max(longest, maxModelLen);
      template = Math.max(template, templateTokens);
    }
  }
  return {
    maxModelLen: isBounded && longest >= 0 ? longest : undefined,
    templateTokens: template < 0 ? undefined : template,
  };
}

interface FleetHealth {
  readonly isTakingRequests: boolean;
  readonly body: object;
}

/**
 * @param modelOf resolves a name to a model: each model is listed once, without its aliases
 * @param startsOnDemand whether a model loads on demand, and so is healthy without a ready instance
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
  // A suspect instance is only seconds late, and requests wait for it.
  const isTakingRequests = !isDraining && models.some((model) => isWell(model) || (model.instances.suspect ?? 0) > 0);
  const isWhole = models.every(isWell);
  const status = isDraining ? "draining" : !isTakingRequests ? "unavailable" : isWhole ? "ok" : "degraded";
  return { isTakingRequests, body: { status, models } };
}
