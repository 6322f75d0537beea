/** The shapes of well-known models, and names near a misspelt one. */
import { MillraceError } from "../core/errors.js";
import { refusalOf, servedModelType } from "../formats/architectures.js";
import { KNOWN_MODELS, type KnownModel } from "./data/models.js";
import type { ModelShape } from "./model-shape.js";

export const KNOWN_NAMES: readonly string[] = KNOWN_MODELS.map(({ name }) => name);

export function shapeOf(known: KnownModel): ModelShape {
  const {
    repo,
    publishedParameters: _,
    publishedActiveParameters: __,
    checkpoints = {},
    isTied = false,
    ...rest
  } = known;
  const embeddedRefusal = refusalOf(() => servedModelType(rest.modelType));
  return { ...rest, isTied, checkpoints, embeddedRefusal, location: repo, source: `config.json of ${repo}` };
}

/** By our name or the hub's, whatever the case. */
export function findKnownModel(name: string): ModelShape | undefined {
  const wanted = name.toLowerCase();
  const known = KNOWN_MODELS.find((model) => model.name === wanted || model.repo.toLowerCase() === wanted);
  return known === undefined ? undefined : shapeOf(known);
}

export function knownModel(name: string): ModelShape {
  const shape = findKnownModel(name);
  if (shape !== undefined) return shape;
  throw new MillraceError(
    "invalid_option",
    `expected --model to be a file, hf:org/repo or a known name, got ${JSON.stringify(name)}`,
    {
      hint: `known names: ${KNOWN_NAMES.join(", ")}`,
    },
  );
}
