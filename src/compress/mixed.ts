/**
 * Chooses types for a file of a given size. Matrices of one kind in one third of the layers form a group. Each group
 * alone is stored in few bits, and the resulting KL divergence is measured; other types of the group are assumed to
 * cost in proportion to their squared error. Bits then go where they save most.
 */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { RowEncoder } from "../backend/backend.js";
import type { BlockType } from "../backend/ops.js";
import { convertModel } from "../convert/convert.js";
import { asWritten } from "../convert/weights/delta-layers.js";
import { tensorsOf } from "../convert/weights/model-tensors.js";
import { bytesOf, type ModelTensor, plainTypeOf, type Storage } from "../convert/weights/tensors.js";
import { MillraceError } from "../core/errors.js";
import { formatBytes } from "../core/quantities.js";
import type { StartStage } from "../core/stages.js";
import { dequantizeRow, rowByteLength, type WeightType } from "../formats/dequantize.js";
import type { TensorType } from "../formats/gguf/types.js";
import { type OpenModel, openModel } from "../model/open-model.js";
import type { Rounding } from "./error-feedback.js";
import type { Importance } from "./importance.js";
import type { Recall } from "./journal.js";
import { measureLoss } from "./loss.js";
import { fileTypeNear, fitting, isStateGate } from "./recipes.js";
import { encodingOf } from "./storage.js";

/** Smallest first. */
const LADDER: readonly BlockType[] = ["Q2_K", "Q3_K", "IQ4_XS", "Q4_K", "Q5_K", "Q6_K", "Q8_0"];
/** This type's loss is well above the noise, but not a collapse. */
const PROBE: BlockType = "Q3_K";
/** Rows of a matrix on which the types' errors are compared. */
const SAMPLE_ROWS = 64;
/** Windows of held-out text per probe. */
const PROBE_WINDOWS = 8;

export interface TypeChoice {
  readonly group: string;
  readonly type: BlockType;
  /** Divergence of the file in which only this group has the type PROBE. */
  readonly probeKl: number;
  readonly numBytes: number;
}

interface MixedSettings {
  readonly model: string;
  /** Folder for the probes, which exist one at a time. */
  readonly folder: string;
  /** Largest size of the file. */
  readonly maxBytes: number;
  readonly importance: Importance | undefined;
  readonly numThreads: number;
  /** Token ids of held-out texts. */
  readonly heldOut: readonly (readonly number[])[];
  readonly recall: Recall;
}

interface Group {
  readonly name: string;
  readonly tensors: readonly ModelTensor[];
}

/** Name of the matrix's group; undefined: the matrix stays plain, such as a router. */
export function groupOf(tensor: ModelTensor, numLayers: number): string | undefined {
  const { name, shape } = tensor;
  if (shape.length === 1 || name.includes("ffn_gate_inp") || isStateGate(tensor)) return undefined;
  const layer = /^blk\.(\d+)\.(\w+)\.weight$/.exec(name);
  if (layer === null) return name.replace(/\.weight$/, "");
  const third = Math.min(2, Math.floor((3 * Number(layer[1])) / numLayers));
  return `${layer[2]} ${["first", "middle", "last"][third]} third`;
}

function groupsOf({ config, tensors }: OpenModel): readonly Group[] {
  const groups = new Map<string, ModelTensor[]>();
  for (const tensor of tensorsOf(config, tensors())) {
    const name = groupOf(tensor, config.layers.length);
    if (name === undefined) continue;
    const known = groups.get(name);
    if (known === undefined) groups.set(name, [tensor]);
    else known.push(tensor);
  }
  return [...groups].map(([name, own]) => ({ name, tensors: own }));
}

const bytesAs = ({ tensors }: Group, type: BlockType): number =>
  tensors.reduce(
    (sum, { shape: [rows, cols] }) => sum + rows * rowByteLength(fitting(type, cols!) as WeightType, cols!)!,
    0,
  );

const leastBytesOf = (groups: readonly Group[]): number =>
  groups.reduce((sum, group) => sum + bytesAs(group, LADDER[0]!), 0);

const tooSmall = (expected: string, maxBytes: number): MillraceError =>
  new MillraceError("invalid_option", `expected --max-size ${expected} for this model, got ${formatBytes(maxBytes)}`, {
    hint: "the smallest type of this choice is Q2_K: take a smaller model for less",
  });

/**
 * Throws invalid_option, before any measurement, if the matrices alone take more than `maxBytes` in the smallest types.
 */
export function assertRoomForMatrices(path: string, maxBytes: number): void {
  const leastBytes = leastBytesOf(groupsOf(asWritten(openModel(path), true)));
  if (maxBytes <= leastBytes) throw tooSmall(`above ${formatBytes(leastBytes)}`, maxBytes);
}

/** @throws invalid_option if even the smallest types take more than `maxBytes` */
export async function chooseTypes(
  settings: MixedSettings,
  encoder: RowEncoder,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<readonly TypeChoice[]> {
  const { model: path, maxBytes, heldOut, numThreads, recall } = settings;
  const model = asWritten(openModel(path), true);
  const groups = groupsOf(model);
  const plain = plainTypeOf(model.summary.weightType as WeightType | undefined);
  const windows = heldOut.slice(0, PROBE_WINDOWS);
  const leastBytes = leastBytesOf(groups);
  const tooSmallFor = (fixedBytes: number): MillraceError =>
    tooSmall(`of at least ${formatBytes(fixedBytes + leastBytes)}`, maxBytes);
  const folder = join(settings.folder, "probes");
  const stage = startStage("sensitivity");
  const probe = async (group: Group): Promise<Probe> => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    const out = join(folder, "probe.gguf");
    const type = (opened: OpenModel) =>
      mixedStorage("probe", new Map([[group.name, PROBE]]), plain, opened, {
        encoder,
        importance: settings.importance,
      });
    const { numBytes } = await convertModel({ model: path, out, type }, undefined, undefined, signal);
    const others = groups.filter((each) => each !== group);
    const plainBytes = others.reduce((sum, each) => sum + numValues(each) * (plain === "F32" ? 4 : 2), 0);
    const fixedBytes = numBytes - plainBytes - bytesAs(group, PROBE);
    // Reported with the first probe, which shows the bytes of the file beside its matrices.
    if (maxBytes < fixedBytes + leastBytes) throw tooSmallFor(fixedBytes);
    const loss = await measureLoss(path, out, windows, numThreads, silent, signal);
    return { fixedBytes, probeKl: loss.meanKl, errors: errorsOf(model, group, settings.importance, encoder) };
  };
  try {
    const measured: Measured[] = [];
    let fixedBytes = 0;
    for (const [index, group] of groups.entries()) {
      const found = await recall(`probe of ${group.name}`, () => {
        signal.throwIfAborted();
        stage.update(`${group.name}, ${index + 1} of ${groups.length}`);
        return probe(group);
      });
      fixedBytes = Math.max(fixedBytes, found.fixedBytes);
      measured.push({ group, probeKl: found.probeKl, errors: found.errors });
    }
    const choices = allocate(measured, maxBytes - fixedBytes);
    if (choices === undefined) throw tooSmallFor(fixedBytes);
    stage.done(`${groups.length} groups measured on ${windows.reduce((sum, { length }) => sum + length, 0)} tokens`);
    return choices;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const silent: StartStage = () => ({ update: () => {}, note: () => {}, done: () => {} });

const numValues = ({ tensors }: Group): number =>
  tensors.reduce((sum, { shape: [rows, cols] }) => sum + rows * cols!, 0);

interface Measured {
  readonly group: Group;
  readonly probeKl: number;
  /** Squared error by type, in the order of LADDER. */
  readonly errors: readonly number[];
}

/** A group's measurement; `fixedBytes`: bytes of the file beside the groups' matrices. */
interface Probe extends Omit<Measured, "group"> {
  readonly fixedBytes: number;
}

/** Rounding errors of rows from the middle of one matrix, weighted by the importance of its columns. */
function errorsOf(model: OpenModel, { tensors }: Group, importance: Importance | undefined, encoder: RowEncoder) {
  const tensor = tensors[tensors.length >> 1]!;
  const [rows, cols] = tensor.shape as readonly [number, number];
  const weights = importance?.of(tensor.name, cols);
  const values = firstRows(model, tensor, Math.min(rows, SAMPLE_ROWS), cols);
  return LADDER.map((wanted) => {
    const type = fitting(wanted, cols);
    // Halves lose so little that their error counts as zero.
    if (type === "F16") return 0;
    const coded = dequantizeRow(
      type as WeightType,
      encoder.encode(type as BlockType, values, cols, weights),
      values.length,
    );
    return values.reduce((sum, value, i) => sum + (weights?.[i % cols] ?? 1) * (value - coded[i]!) ** 2, 0);
  });
}

function firstRows(model: OpenModel, tensor: ModelTensor, rows: number, cols: number): Float32Array {
  const values = new Float32Array(rows * cols);
  let at = 0;
  for (const piece of bytesOf(model.tensors(), tensor, "F32")) {
    const floats = new Float32Array(piece.buffer, piece.byteOffset, piece.byteLength / 4);
    const taken = floats.subarray(0, values.length - at);
    values.set(taken, at);
    at += taken.length;
    if (at === values.length) break;
  }
  return values;
}

/**
 * Starts from the smallest types, and applies the changes that fit, in the order of saved divergence per byte.
 * @param room most bytes of all groups together @returns undefined if the smallest types do not fit
 */
export function allocate(measured: readonly Measured[], room: number): readonly TypeChoice[] | undefined {
  const probeAt = LADDER.indexOf(PROBE);
  const states = measured.map(({ group, probeKl, errors }) => {
    const perError = Math.max(probeKl, 0) / Math.max(errors[probeAt]!, Number.MIN_VALUE);
    return {
      group,
      probeKl,
      level: 0,
      costs: errors.map((error) => error * perError),
      sizes: LADDER.map((type) => bytesAs(group, type)),
    };
  });
  let left = room - states.reduce((sum, { sizes }) => sum + sizes[0]!, 0);
  if (left < 0) return undefined;
  for (;;) {
    const steps = states.flatMap((state) =>
      LADDER.map((_, level) => {
        const bytes = state.sizes[level]! - state.sizes[state.level]!;
        const saved = state.costs[state.level]! - state.costs[level]!;
        return { state, level, bytes, gain: bytes > 0 ? saved / bytes : 0 };
      }),
    );
    const best = steps
      .filter(({ bytes, gain }) => gain > 0 && bytes <= left)
      .reduce<(typeof steps)[number] | undefined>((a, b) => (a === undefined || b.gain > a.gain ? b : a), undefined);
    if (best === undefined) break;
    left -= best.bytes;
    best.state.level = best.level;
  }
  return states.map(({ group, probeKl, level, sizes }) => ({
    group: group.name,
    type: LADDER[level]!,
    probeKl,
    numBytes: sizes[level]!,
  }));
}

/** @param types by group; matrices of no group are stored in `plain` */
export function mixedStorage(
  name: string,
  types: ReadonlyMap<string, BlockType>,
  plain: TensorType,
  { config }: OpenModel,
  rounding: Rounding,
): Storage {
  const [common = PROBE] = mostCommon([...types.values()]);
  return {
    name,
    fileType: fileTypeNear(common),
    typeOf: (tensor) => {
      const type = types.get(groupOf(tensor, config.layers.length) ?? "");
      return type === undefined ? plain : fitting(type, tensor.shape[1]!);
    },
    ...encodingOf(rounding),
  };
}

function mostCommon(types: readonly BlockType[]): readonly BlockType[] {
  const count = (type: BlockType): number => types.filter((each) => each === type).length;
  return [...types].sort((a, b) => count(b) - count(a));
}
