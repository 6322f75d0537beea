/**
 * The classification head of a model that scores pairs of texts: of an encoder (a cross-encoder), or behind the last
 * token of a qwen3.
 */
import type { JsonObject } from "../../formats/files/json.js";
import {
  type HeadDescription,
  type HeadLayer,
  type HeadScoring,
  linearLayer,
  type Pooling,
} from "../description/pooling.js";
import { unservedVariant } from "../description/servable.js";
import { ConfigReader } from "./config-reader.js";
import type { TypeTraits } from "./model-types.js";

interface Classifier {
  readonly pooling: Pooling;
  readonly head: HeadDescription;
}

/** @returns undefined for a model without a classification head */
export function classifierOf(text: JsonObject, traits: TypeTraits, width: number): Classifier | undefined {
  const classes = text.strings("architectures") ?? [];
  if (!classes.some((name) => name.endsWith("ForSequenceClassification"))) return undefined;
  if (traits.encoder === undefined && text.string("model_type") !== "qwen3") {
    throw unservedVariant(`expected a classification head on an encoder or a qwen3, got ${classes.join(", ")}`);
  }
  const numLabels = numLabelsOf(text);
  if (numLabels !== 1) {
    throw unservedVariant(`expected a classification head with one label, the score of a pair, got ${numLabels}`);
  }
  const output = linearLayer("cls.output", width, 1);
  if (traits.encoder === undefined) return { pooling: "last", head: { layers: [output], scoring: scoringOf(text) } };
  const type = text.string("model_type");
  if (type === "nomic_bert") throw unservedVariant("expected a nomic_bert without a classification head, got one");
  if (type === "modernbert") return modernClassifier(text, traits, output, width);
  const layers = [linearLayer("cls", width, width, "tanh"), output].map((layer) => ({ ...layer, isBiased: true }));
  return { pooling: "cls", head: { layers, scoring: scoringOf(text) } };
}

function modernClassifier(text: JsonObject, traits: TypeTraits, output: HeadLayer, width: number): Classifier {
  const stated = text.string("classifier_pooling") ?? "cls";
  const activation = text.string("classifier_activation") ?? "gelu";
  if ((stated !== "cls" && stated !== "mean") || (activation !== "gelu" && activation !== "relu")) {
    throw unservedVariant(`expected a classifier of cls or mean by gelu or relu, got ${stated} and ${activation}`);
  }
  const eps = new ConfigReader(text).positive("norm_eps", traits.defaults.rmsEps);
  const norm: HeadLayer = { kind: "norm", name: "cls.norm", width, eps };
  const layers = [linearLayer("cls", width, width, activation), norm, output];
  return { pooling: stated, head: { layers, scoring: scoringOf(text) } };
}

function numLabelsOf(text: JsonObject): number {
  const names = text.object("id2label");
  return text.number("num_labels") ?? (names === undefined ? 2 : Object.keys(names.raw).length);
}

/** Names of torch's classes in config.json. */
const SCORINGS: Readonly<Record<string, HeadScoring>> = {
  "torch.nn.modules.linear.Identity": "raw",
  "torch.nn.modules.activation.Sigmoid": "sigmoid",
};

/** The activation that sentence-transformers applies: the sigmoid of one label, unless the file names another. */
function scoringOf(text: JsonObject): HeadScoring {
  const nested = text.object("sentence_transformers");
  const stated = nested?.string("activation_fn") ?? text.string("sbert_ce_default_activation_function");
  if (stated === undefined) return "sigmoid";
  const scoring = Object.hasOwn(SCORINGS, stated) ? SCORINGS[stated] : undefined;
  if (scoring !== undefined) return scoring;
  throw unservedVariant(`expected scores as they are or by the sigmoid, got ${stated}`);
}
