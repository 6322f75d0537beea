/**
 * Folders of Medusa heads as the hub has them (arXiv 2401.10774; FasterDecoding/medusa-vicuna-7b-v1.3): a config.json
 * beside the heads' weights, checked against the model they draft for.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { TensorSource } from "../../backend/tensor-source.js";
import { readJsonFile } from "../../formats/files/json.js";
import { CONFIG_NAME } from "../../formats/hf/folder.js";
import { readSafetensorsFile } from "../../formats/safetensors/read.js";
import type { ServableModel } from "../../model/description/servable.js";
import { ConfigReader } from "../../model/hf/config-reader.js";
import { tensorError } from "../../model/hf/plain-tensor.js";
import { HeadTensors, numTensorBytes } from "./head-tensors.js";
import { MAX_DEPTH } from "./heads-file.js";
import { FITS_ONE_MODEL, refused } from "./refused-heads.js";

const WEIGHTS_NAME = "medusa_lm_head.safetensors";
const PICKLE_NAME = "medusa_lm_head.pt";
const HEADS_KEY = "medusa_num_heads";
const MAX_BLOCKS = 16;
/** Of the names of all tensors: Medusa's first version, and those that were trained with the model. */
const PREFIXES = ["", "medusa_heads."] as const;

export interface MedusaFolder {
  /** Each drafts one token more. */
  readonly numHeads: number;
  /** Residual blocks of a head. */
  readonly numBlocks: number;
  /** `heads.I.J` is block J of head I, `heads.I.output` its output matrix. */
  readonly tensors: TensorSource;
  readonly numBytes: number;
}

/** Whether a folder is of heads alone, in either form: models that were trained with heads state their number too. */
export function isMedusaFolder(path: string): boolean {
  const has = (name: string) => existsSync(join(path, name));
  if (!has(CONFIG_NAME) || !(has(WEIGHTS_NAME) || has(PICKLE_NAME))) return false;
  return readJsonFile(join(path, CONFIG_NAME)).has(HEADS_KEY);
}

/**
 * @param path of a folder that `isMedusaFolder` knows
 * @param method the wanted kind
 * @param target the model to draft for
 * @throws invalid_option unless the folder has Medusa heads in safetensors for that model; model_config, model_tensor
 * and the errors of safetensors files for damaged ones
 */
export function readMedusa(path: string, method: string, target: ServableModel): MedusaFolder {
  if (method === "eagle" || method === "eagle3") {
    throw refused(`heads of kind ${method}`, "medusa", { hint: 'Method "heads" takes any kind.' });
  }
  const weightsPath = join(path, WEIGHTS_NAME);
  if (!existsSync(weightsPath)) throw refused(`${WEIGHTS_NAME} in ${path}`, PICKLE_NAME, { hint: CONVERSION });
  const read = new ConfigReader(readJsonFile(join(path, CONFIG_NAME)));
  const numStated = read.size(HEADS_KEY, MAX_DEPTH);
  const numBlocks = read.size("medusa_num_layers", MAX_BLOCKS, 1);
  const files = readSafetensorsFile(weightsPath);
  const prefix = PREFIXES.find((candidate) => files.tensors.has(`${candidate}0.0.linear.weight`)) ?? PREFIXES[0];
  const outputOf = (head: number) => files.tensors.get(`${prefix}${head}.${numBlocks}.weight`);
  let numHeads = 0;
  // The published config.json files state fewer heads than there are, and Medusa's own code goes by the weights.
  while (numHeads < MAX_DEPTH && outputOf(numHeads) !== undefined) numHeads++;
  if (numHeads < numStated) {
    const missing = `${prefix}${numHeads}.${numBlocks}.weight`;
    throw tensorError(`expected the outputs of ${numStated} heads, got no ${missing}`);
  }
  assertSizes(outputOf(0)!.shape, target);
  return {
    numHeads,
    numBlocks,
    tensors: new HeadTensors(files, storedNames(prefix, numBlocks)),
    numBytes: numTensorBytes(files),
  };
}

/** A pickle may run any program where it is read, so that it is converted by a reader that loads tensors alone. */
const CONVERSION =
  `Convert ${PICKLE_NAME} where torch and safetensors are installed: ` +
  `python -c "import torch; from safetensors.torch import save_file; ` +
  `save_file(torch.load('${PICKLE_NAME}', map_location='cpu', weights_only=True), '${WEIGHTS_NAME}')"`;

function assertSizes([rows, cols]: readonly number[], target: ServableModel): void {
  if (cols !== target.width) throw refused(`heads of width ${target.width}`, `${cols}`, { hint: FITS_ONE_MODEL });
  if (rows !== target.vocabSize) {
    throw refused(`heads for a vocabulary of ${target.vocabSize} tokens`, `${rows}`, { hint: FITS_ONE_MODEL });
  }
}

/** @example storedNames("", 1)("heads.3.0.bias") // "3.0.linear.bias" */
function storedNames(prefix: string, numBlocks: number): (name: string) => string {
  return (name) => {
    const [, head, part, kind] = /^heads\.(\d+)\.(\w+)\.(weight|bias)$/.exec(name)!;
    return `${prefix}${head}.${part === "output" ? numBlocks : `${part}.linear`}.${kind}`;
  };
}
