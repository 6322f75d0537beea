/**
 * Reads a LoRA adapter in peft's format: the base's matrices that it changes, and its factors. Everything is checked
 * against the base before use.
 */
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import { type JsonObject, readJsonFile, shownValue } from "../../formats/files/json.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import { readHeader } from "../../formats/safetensors/header.js";
import type { SafetensorsTensor } from "../../formats/safetensors/types.js";
import { plainType } from "../../model/hf/plain-tensor.js";

const CONFIG = "adapter_config.json";
const WEIGHTS = "adapter_model.safetensors";
/** peft names tensors by their path in the wrapped model. */
const WRAPPED = "base_model.model.";
/** Adapters in use have ranks of 4 to 512. */
const MAX_RANK = 1024;
/** Patterns name parts of modules; regular expressions from foreign files never run. */
const PLAIN_PATTERN = /^[A-Za-z0-9_.]{1,256}$/;
const MAX_PATTERNS = 10_000;

/** Settings under which the change is not the product of two matrices, or not of the stored tensor. */
const UNMERGEABLE = [
  "use_dora",
  "use_qalora",
  "use_bdlora",
  "lora_bias",
  "fan_in_fan_out",
  "layer_replication",
  "alora_invocation_tokens",
  "arrow_config",
  "target_parameters",
  "trainable_token_indices",
  "kasa_config",
  "monteclora_config",
  "velora_config",
] as const;
/**
 * Initialisations that leave the base's weights unchanged; others (PiSSA, OLoRA, CorDA) change them before training.
 */
const BEGINNINGS: readonly unknown[] = [undefined, true, false, "gaussian", "eva", "orthogonal"];

/** The matrix becomes W + scale · b · a. */
export interface LoraFactors {
  readonly rank: number;
  readonly scale: number;
  /** f32 [rank, columns of the matrix] */
  readonly a: Float32Array;
  /** f32 [rows of the matrix, rank] */
  readonly b: Float32Array;
}

export interface LoraAdapter {
  /** The base model that the adapter names: a repository of the hub, or a path on another machine. */
  readonly trainedOn: string | undefined;
  /** Ranks of the tensors that the adapter changes, by their names in the base. */
  readonly ranks: ReadonlyMap<string, number>;
  /** Tensors that were trained whole, by their names in the base. */
  readonly whole: ReadonlyMap<string, SafetensorsTensor>;
  /** Reads the pair of one matrix. */
  factors(name: string): LoraFactors;
  /** f32 values of a tensor that was trained whole. */
  wholeValues(name: string): Float32Array;
}

/** Whether a folder holds an adapter instead of a model. */
export const isAdapter = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === true && existsSync(join(path, CONFIG));

/** The base that an adapter names; undefined: it names none. Throws model_config. */
export const baseNamedBy = (folder: string): string | undefined =>
  readJsonFile(join(folder, CONFIG)).string("base_model_name_or_path");

/**
 * @param base tensors of the base by their stored names
 * @throws model_config for an adapter that cannot be merged, model_tensor for one that does not fit the base
 */
export function readAdapter(folder: string, base: ReadonlyMap<string, SafetensorsTensor>): LoraAdapter {
  const config = readJsonFile(join(folder, CONFIG));
  const scaling = scalingOf(config);
  const path = join(folder, WEIGHTS);
  if (!existsSync(path) && existsSync(join(folder, "adapter_model.bin"))) {
    throw new MillraceError("file_unreadable", `expected ${WEIGHTS} in ${folder}, got adapter_model.bin`, {
      hint: "a .bin file is a program that Python runs: load and save the adapter with peft, which writes safetensors",
    });
  }
  const pairs = new Map<string, { a?: SafetensorsTensor; b?: SafetensorsTensor }>();
  const whole = new Map<string, SafetensorsTensor>();
  for (const tensor of readHeader(path, 0).tensors) {
    const name = tensor.name.startsWith(WRAPPED) ? tensor.name.slice(WRAPPED.length) : tensor.name;
    const [, module, side] = /^(.+)\.lora_([AB])\.weight$/.exec(name) ?? [];
    const stored = module === undefined ? name : `${module}.weight`;
    const target = base.get(stored);
    if (target === undefined) throw misfit(`expected tensors for ones of the base, got ${shownValue(tensor.name)}`);
    if (module === undefined) {
      if (pairs.has(stored)) throw misfit(`expected factors or the whole of ${stored}, got both`);
      if (String(target.shape) !== String(tensor.shape)) throw wrongShape(tensor, target.shape);
      whole.set(stored, tensor);
    } else {
      if (whole.has(stored)) throw misfit(`expected factors or the whole of ${stored}, got both`);
      pairs.set(stored, { ...pairs.get(stored), [side === "A" ? "a" : "b"]: tensor });
    }
  }
  if (pairs.size + whole.size === 0) throw misfit(`expected tensors in ${path}, got none`);
  const ranks = new Map([...pairs].map(([name, pair]) => [name, checkedRank(name, pair, base.get(name)!, scaling)]));
  const valuesOf = (tensor: SafetensorsTensor): Float32Array => {
    using file = openFile(path);
    const bytes = readExactly(file, tensor.byteOffset, tensor.byteLength);
    const values = dequantizeRow(plainType(tensor), bytes, elementsOf(tensor));
    const broken = values.find((value) => !Number.isFinite(value));
    if (broken !== undefined) throw misfit(`expected finite values in ${tensor.name}, got ${broken}`);
    return values;
  };
  return {
    trainedOn: config.string("base_model_name_or_path"),
    ranks,
    whole,
    factors: (name) => {
      const { a, b } = pairs.get(name)!;
      return { rank: ranks.get(name)!, scale: scaling.scaleOf(name), a: valuesOf(a!), b: valuesOf(b!) };
    },
    wholeValues: (name) => valuesOf(whole.get(name)!),
  };
}

const elementsOf = ({ shape }: SafetensorsTensor): number => shape.reduce((product, size) => product * size, 1);

interface Scaling {
  rankOf(name: string): number;
  scaleOf(name: string): number;
}

/**
 * peft's rules: alpha ÷ rank, or alpha ÷ √rank; modules whose names end in a pattern have their own ranks and alphas.
 */
function scalingOf(config: JsonObject): Scaling {
  const type = config.string("peft_type");
  if (type !== "LORA") throw unmergeable(config.nameOf("peft_type"), "LORA", type);
  for (const key of UNMERGEABLE) {
    const value = config.value(key);
    const isOff = value === undefined || value === false || (Array.isArray(value) && value.length === 0);
    if (!isOff) throw unmergeable(config.nameOf(key), "absent or false", value);
  }
  const beginning = config.value("init_lora_weights");
  if (!BEGINNINGS.includes(beginning)) throw unmergeable(config.nameOf("init_lora_weights"), "true", beginning);
  const [rank, alpha] = [config.number("r"), config.number("lora_alpha")];
  const ranks = patternsOf(config, "rank_pattern");
  const alphas = patternsOf(config, "alpha_pattern");
  const isRoot = config.boolean("use_rslora") ?? false;
  const found = (patterns: ReadonlyMap<string, number>, name: string, usual: number | undefined, key: string) => {
    const module = name.replace(/\.weight$/, "");
    const own = [...patterns].find(([pattern]) => module === pattern || module.endsWith(`.${pattern}`))?.[1] ?? usual;
    if (own !== undefined && own > 0) return own;
    throw unmergeable(config.nameOf(key), "a number above 0", own);
  };
  const rankOf = (name: string): number => {
    const own = found(ranks, name, rank, "r");
    if (Number.isInteger(own) && own <= MAX_RANK) return own;
    throw unmergeable(config.nameOf("r"), `a whole number up to ${MAX_RANK}`, own);
  };
  const scaleOf = (name: string): number => {
    const own = rankOf(name);
    return found(alphas, name, alpha, "lora_alpha") / (isRoot ? Math.sqrt(own) : own);
  };
  return { rankOf, scaleOf };
}

function patternsOf(config: JsonObject, key: string): ReadonlyMap<string, number> {
  const patterns = Object.entries(config.object(key)?.raw ?? {});
  if (patterns.length > MAX_PATTERNS)
    throw unmergeable(config.nameOf(key), `at most ${MAX_PATTERNS} entries`, patterns.length);
  return new Map(
    patterns.map(([pattern, value]) => {
      if (!PLAIN_PATTERN.test(pattern)) throw unmergeable(config.nameOf(key), "names of modules", pattern);
      if (typeof value !== "number") throw unmergeable(config.nameOf(`${key}.${pattern}`), "a number", value);
      return [pattern, value] as const;
    }),
  );
}

function checkedRank(
  name: string,
  { a, b }: { readonly a?: SafetensorsTensor; readonly b?: SafetensorsTensor },
  target: SafetensorsTensor,
  { rankOf, scaleOf }: Scaling,
): number {
  if (a === undefined || b === undefined)
    throw misfit(`expected two factors for ${name}, got lora_${a === undefined ? "B" : "A"} alone`);
  const [rows, cols] = target.shape;
  if (target.shape.length !== 2) throw misfit(`expected a matrix ${name} in the base, got shape [${target.shape}]`);
  const rank = rankOf(name);
  if (!Number.isFinite(scaleOf(name))) throw misfit(`expected a finite scale for ${name}, got ${scaleOf(name)}`);
  if (String(a.shape) !== String([rank, cols])) throw wrongShape(a, [rank, cols!]);
  if (String(b.shape) !== String([rows, rank])) throw wrongShape(b, [rows!, rank]);
  return rank;
}

const wrongShape = ({ name, shape }: SafetensorsTensor, expected: readonly number[]): MillraceError =>
  misfit(`expected ${name} of shape [${expected}], got [${shape}]`);

function misfit(message: string): MillraceError {
  return new MillraceError("model_tensor", message, {
    hint: "the adapter is damaged, or was trained on another base: --base names the model that it was trained on",
  });
}

function unmergeable(where: string, expected: string, got: unknown): MillraceError {
  return new MillraceError("model_config", `expected ${where} to be ${expected}, got ${shownValue(got)}`, {
    hint: "merge it where it was trained: peft's merge_and_unload, then save_pretrained; the folder needs no adapter then",
  });
}
