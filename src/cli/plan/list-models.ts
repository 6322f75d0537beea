/** The models that `millrace plan --model` knows by name, as a table or as JSON. */
import { activeLinearParameters, expertsOf, totalParameters } from "../../model/description/sizes.js";
import { KNOWN_MODELS } from "../../plan/data/models.js";
import { plannedModelOf } from "../../plan/known-model.js";
import { enginesFor } from "../../plan/rules.js";
import { formatTable, jsonText } from "../output/format.js";

const billions = (count: number): string => `${(count / 1e9).toPrecision(count < 1e10 ? 2 : 3)} B`.replace(".0 ", " ");
const thousands = (tokens: number): string => (tokens % 1024 === 0 ? `${tokens / 1024}K` : String(tokens));

interface Listed {
  readonly name: string;
  readonly repository: string;
  readonly parameters: number;
  /** Parameters of the layers that one token passes; absent: all. */
  readonly activeParameters?: number;
  readonly contextLength: number;
  /** The published type. */
  readonly weights: string;
  readonly engines: readonly string[];
  /** Why the embedded engine does not support it; absent: it does. */
  readonly embeddedRefusal?: string;
}

function listed(): readonly Listed[] {
  return KNOWN_MODELS.map((known) => {
    const model = plannedModelOf(known);
    const { embeddedRefusal } = model;
    return {
      name: known.name,
      repository: known.repo,
      parameters: totalParameters(model),
      ...(expertsOf(model) === undefined ? {} : { activeParameters: activeLinearParameters(model) }),
      contextLength: known.contextLength,
      weights: known.native ?? "bf16",
      engines: [...(embeddedRefusal === undefined ? ["millrace"] : []), ...(enginesFor(model) ?? [])],
      ...(embeddedRefusal === undefined ? {} : { embeddedRefusal }),
    };
  });
}

export function modelList(isJson: boolean): string {
  const models = listed();
  if (isJson) return jsonText({ models }, 2);
  const rows = models.map(({ name, parameters, activeParameters, contextLength, weights, engines, repository }) => [
    name,
    billions(parameters),
    activeParameters === undefined ? "–" : billions(activeParameters),
    thousands(contextLength),
    weights,
    engines.join(", "),
    repository,
  ]);
  return [
    formatTable([["model", "weights", "active", "context", "type", "engines", "repository"], ...rows]),
    "engines: millrace on CPUs where its own loader takes the model, and the others by the kinds of models that their documentation lists; any other model by hf:org/repo, a .gguf file or a folder",
  ].join("\n");
}
