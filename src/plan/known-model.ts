/** Finds well-known models by our name or the hub's. */
import { MillraceError } from "../core/errors.js";
import { refusalOf, servableLayers } from "../model/description/servable.js";
import { expertsOf } from "../model/description/sizes.js";
import { architectureOf, servedModelType } from "../model/hf/model-types.js";
import type { KnownModel } from "./data/model-row.js";
import { KNOWN_MODELS } from "./data/models.js";
import type { PlannedModel } from "./planned-model.js";

export const KNOWN_NAMES: readonly string[] = KNOWN_MODELS.map(({ name }) => name);

export function plannedModelOf(known: KnownModel): PlannedModel {
  const { repo, publishedParameters: _, publishedActiveParameters: __, checkpoints = {}, ...rest } = known;
  const embeddedRefusal = refusalOf(() => {
    servableLayers(rest, architectureOf(servedModelType(rest.modelType), expertsOf(rest) !== undefined));
  });
  return { ...rest, checkpoints, embeddedRefusal, location: repo, source: `config.json of ${repo}` };
}

/** Makers and users spell these differently: gemma-4-31B-it, gemma4-31b. */
const plainName = (name: string): string =>
  name
    .toLowerCase()
    .replace(/-(it|instruct|chat)$/, "")
    .replaceAll("-", "");

/** Finds a model by our name or the hub's, ignoring case and dashes. */
export function findKnownModel(name: string): PlannedModel | undefined {
  const wanted = plainName(name);
  const known = KNOWN_MODELS.find((model) => plainName(model.name) === wanted || plainName(model.repo) === wanted);
  return known === undefined ? undefined : plannedModelOf(known);
}

export function knownModel(name: string): PlannedModel {
  const found = findKnownModel(name);
  if (found !== undefined) return found;
  throw new MillraceError(
    "invalid_option",
    `expected --model to be a file, hf:org/repo or a known name, got ${JSON.stringify(name)}`,
    {
      hint: `known names: ${KNOWN_NAMES.join(", ")}; millrace plan --list-models tells more of them`,
    },
  );
}
