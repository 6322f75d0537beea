/**
 * Reads a model for plans from its own files (a GGUF header, a folder's config and tensor table), or from the config of
 * a hub repository.
 */
import { basename, join, resolve } from "node:path";
import { MillraceError } from "../core/errors.js";
import type { JsonObject } from "../formats/files/json.js";
import { readGguf } from "../formats/gguf/read.js";
import type { GgufFile } from "../formats/gguf/types.js";
import { CONFIG_NAME, type HfFolder, isHfFolder, readHfFolder } from "../formats/hf/folder.js";
import { HUB_PREFIX } from "../formats/hub/spec.js";
import { fetchHubConfig, type ResolveOptions } from "../formats/hub.js";
import { isEncoder } from "../model/description/architectures.js";
import { refusalOf } from "../model/description/servable.js";
import type { WeightSummary } from "../model/description/weight-summary.js";
import { describeGguf } from "../model/gguf/describe.js";
import { servableGguf } from "../model/gguf/servable.js";
import { summarizeGguf } from "../model/gguf/summary.js";
import { describeConfig, weightFacts } from "../model/hf/describe.js";
import { traitsOf } from "../model/hf/model-types.js";
import { servableConfig } from "../model/hf/servable.js";
import { PACKED_LABEL, summarizeHf } from "../model/hf/summary.js";
import { findKnownModel, knownModel } from "./known-model.js";
import { measuredBeside } from "./measured-report.js";
import type { PlannedModel, StoredWeights } from "./planned-model.js";

/** @param spec a known name, hf:org/repo, or the path of a .gguf file or a folder with config.json */
export async function readPlannedModel(spec: string, options: ResolveOptions = {}): Promise<PlannedModel> {
  if (spec.startsWith(HUB_PREFIX)) {
    const repo = spec.slice(HUB_PREFIX.length);
    return findKnownModel(repo) ?? modelOfRepository(await fetchHubConfig(spec, options), repo);
  }
  if (/\.gguf$/i.test(spec)) return modelOfGguf(readGguf(spec), spec);
  if (isHfFolder(spec)) return modelOfFolder(readHfFolder(spec));
  if (/[/\\]/.test(spec) && findKnownModel(spec) === undefined) {
    throw new MillraceError(
      "file_unreadable",
      `expected a .gguf file or a folder with config.json and weights at ${spec}, got neither`,
      {
        hint: `check the path; a model of the hub is written ${HUB_PREFIX}org/repo`,
      },
    );
  }
  return knownModel(spec);
}

const storedWeights = ({
  weightType: label,
  memoryBytes,
  weightBytes,
  embeddingBytes,
}: WeightSummary): StoredWeights => ({
  label,
  weightBytes: memoryBytes,
  fileBytes: weightBytes,
  embeddingBytes,
});

/** Plans call words of packed four-bit numbers INT4. */
function quantizedFolder(summary: WeightSummary): StoredWeights {
  const stored = storedWeights(summary);
  return stored.label === PACKED_LABEL ? { ...stored, label: "INT4" } : stored;
}

/** @throws architecture_unsupported for an encoder: the cost model has no steps of encoders */
function assertGenerates(architecture: string | undefined): void {
  if (architecture === undefined || !isEncoder(architecture)) return;
  throw new MillraceError(
    "architecture_unsupported",
    `expected a model that generates text, got an encoder (${architecture})`,
    { hint: "plans are for generation; millrace serve runs an encoder with its defaults" },
  );
}

function modelOfGguf(gguf: GgufFile, path: string): PlannedModel {
  assertGenerates(gguf.metadata.string("general.architecture"));
  return {
    ...describeGguf(gguf),
    name: basename(path).replace(/(-\d{5}-of-\d{5})?\.gguf$/i, ""),
    source: `header of ${basename(path)}`,
    location: path,
    stored: storedWeights(summarizeGguf(gguf)),
    measured: measuredBeside(
      path,
      gguf.shards.map((shard) => shard.path),
    ),
    embeddedRefusal: refusalOf(() => servableGguf(gguf)),
    checkpoints: {},
  };
}

function modelOfFolder(folder: HfFolder): PlannedModel {
  const { config, name } = folder;
  assertGenerates(traitsOf(config).architecture);
  const weights = weightFacts(folder);
  const files = [join(folder.path, CONFIG_NAME), ...folder.files.shards.map((shard) => shard.path)];
  const isQuantized = config.has("quantization_config");
  return {
    ...describeConfig(config, name, weights),
    ...modelOfConfig(config, name, resolve(folder.path)),
    // Engines may quantise 16-bit weights; they use other weights unchanged.
    stored: isQuantized ? quantizedFolder(summarizeHf(folder)) : undefined,
    measured: isQuantized ? measuredBeside(folder.path, files) : undefined,
    embeddedRefusal: refusalOf(() => servableConfig(config, name, weights)),
  };
}

function modelOfRepository(config: JsonObject, repo: string): PlannedModel {
  const name = repo.split("/").at(-1)!;
  assertGenerates(traitsOf(config).architecture);
  return {
    ...describeConfig(config, name),
    ...modelOfConfig(config, name, repo),
    native: nativeType(config),
    embeddedRefusal: refusalOf(() => servableConfig(config, name)),
  };
}

const modelOfConfig = (config: JsonObject, name: string, location: string) => ({
  location,
  source: `config.json of ${name}`,
  modelType: config.string("model_type"),
  checkpoints: {},
});

/** The type of a repository's published weights, if they are not in 16 bits. */
function nativeType(config: JsonObject): "fp8" | "mxfp4" | undefined {
  const method = config.object("quantization_config")?.string("quant_method");
  if (method === undefined || method === "fp8" || method === "mxfp4") return method;
  throw new MillraceError(
    "model_config",
    `expected 16-bit, FP8 or MXFP4 weights behind the hub's config, got ${method}`,
    {
      hint: "plan with the model it was made from and --quantization, or download it and pass the folder",
    },
  );
}
