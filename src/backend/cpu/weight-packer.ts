/** Brings a model's matrices into the layout the kernels compute fastest with: from the cache of packs, into it, or into memory. */
import { MillraceError } from "../../core/errors.js";
import { rowByteLength } from "../../formats/dequantize.js";
import type { BufferHandle, WeightHandle } from "../handles.js";
import type { ActivationFormat } from "../ops.js";
import { packedActivations, packedByteLength } from "../packing.js";
import { Program } from "../program.js";
import type { MatrixPlace, MatrixSpec, TensorSource } from "../tensor-source.js";
import type { FileHandle, KernelDevice } from "./kernels.js";
import { contentHashOf, type FoundPack, type PackCache } from "./packs/pack-cache.js";
import { matrixSum, PackCheck } from "./packs/pack-check.js";
import type { PackedMatrix } from "./packs/pack-file.js";
import { PIECE_BYTES, pieces, ROWS_PER_GROUP } from "./packs/pieces.js";

/**
 * auto: integers for quantised weights, of 16 bits beside weights of eight; int8: of eight bits beside these too, which is faster where the CPU
 * multiplies bytes; f32: activations stay as they are, at a fraction of the speed.
 */
export const ACTIVATION_DTYPES = ["auto", "int8", "f32"] as const;
export type ActivationDtype = (typeof ACTIVATION_DTYPES)[number];

export interface PlacedWeight {
  readonly weight: WeightHandle;
  /** What the left operand of `linear` must be. */
  readonly activations: ActivationFormat;
}

interface PackerOptions {
  readonly activationDtype: ActivationDtype;
  /** What the model is called in the cache's list. */
  readonly modelName: string;
  /** The files that the matrices' values depend on. */
  readonly files: readonly string[];
  readonly weightBytes: number;
  readonly cache: PackCache | undefined;
  readonly report: LoadReport;
}

/** What whoever waits for a model hears. */
export interface LoadReport {
  /** fraction from 0 to 1 */
  progress(stage: string, fraction?: number): void;
  /** Something that works, but not as well as it should. */
  note(text: string): void;
  /** A pack is mapped from now on. @param check what is left to be looked at of it, where it is large */
  mapped(file: FileHandle, check: PackCheck | undefined): void;
}

/** Below this a model is packed in less time than it takes to look for it. */
const MIN_CACHED_BYTES = 2 ** 26;
/** Larger packs are looked at while they serve already: reading one this large takes a third of a second. */
const CHECKED_FIRST_BYTES = 2 ** 31;
const REPORT_STEP = 0.02;

export const matrixKey = ({ name, start }: MatrixSpec): string => `${name} ${start}`;

export class WeightPacker {
  /** Bytes the packed matrices take, in memory or in the mapped pack. */
  numBytes = 0;
  readonly #placed = new Map<string, PlacedWeight>();
  readonly #program = new Program();
  readonly #isLarge: boolean;
  #numPackedSourceBytes = 0;
  #lastReported = 0;

  constructor(
    private readonly device: KernelDevice,
    private readonly source: TensorSource,
    private readonly options: PackerOptions,
  ) {
    this.#isLarge = options.weightBytes >= MIN_CACHED_BYTES;
  }

  /** Every matrix by its key, packed where its type has a packed form. */
  place(matrices: readonly MatrixSpec[]): ReadonlyMap<string, PlacedWeight> {
    if (this.options.activationDtype === "f32") {
      for (const spec of matrices) this.#placeInRows(spec, this.#find(spec));
    } else if (!this.#placeFromCache(matrices)) {
      for (const spec of matrices) if (!this.#placed.has(matrixKey(spec))) this.#packIntoMemory(spec);
    }
    return this.#placed;
  }

  /** False, after a note, where the cache cannot serve: packing into memory always can. */
  #placeFromCache(matrices: readonly MatrixSpec[]): boolean {
    const { cache, files } = this.options;
    if (cache === undefined || !this.#isLarge) return false;
    try {
      const known = cache.find(files);
      if (known !== undefined && this.#bindPack(known, matrices)) return true;
      const { report } = this.options;
      const contentHash = contentHashOf(files, this.#steps("reading the model"));
      const moved = cache.findContent(contentHash, files);
      if (moved !== undefined && this.#bindPack(moved, matrices)) return true;
      const table = this.#writePack(cache, contentHash, matrices);
      if (table === undefined) return false;
      report.progress("mapping weights, reserving KV memory");
      return this.#bindPack(table, matrices);
    } catch (thrown) {
      if (thrown instanceof MillraceError) throw thrown;
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      this.options.report.note(`packed weights are not kept, so every start packs them anew: ${reason}`);
      this.#numPackedSourceBytes = 0;
      return false;
    }
  }

  /** False when the pack is not of these matrices. */
  #bindPack({ path, table }: FoundPack, matrices: readonly MatrixSpec[]): boolean {
    const isSame = (spec: MatrixSpec, index: number): boolean => {
      const { name, start, rows, cols } = table.matrices[index]!;
      return spec.name === name && spec.start === start && spec.rows === rows && spec.cols === cols;
    };
    if (table.matrices.length !== matrices.length || !matrices.every(isSame)) return false;
    let file: FileHandle;
    try {
      file = this.device.mapFile(path);
    } catch {
      // Removed since its table was read.
      return false;
    }
    this.device.prefetch(file);
    if (!this.#isWhole({ path, table }, file)) return false;
    table.matrices.forEach(({ type, rows, cols, byteOffset }, index) => {
      const spec = matrices[index]!;
      if (this.#placed.has(matrixKey(spec))) return;
      if (byteOffset === undefined) this.#placeInRows(spec, this.#find(spec));
      else this.#placePacked(spec, file, { byteOffset, type });
      this.numBytes += byteOffset === undefined ? 0 : packedByteLength(type, rows, cols)!;
    });
    return true;
  }

  /** False, after a note, when the pack is damaged; of a large one that is found later. */
  #isWhole(pack: FoundPack, file: FileHandle): boolean {
    const { report } = this.options;
    const check = new PackCheck(this.device, file, pack);
    const isLeftForLater = pack.table.fileBytes > CHECKED_FIRST_BYTES;
    try {
      while (!isLeftForLater && check.step()) {}
      report.mapped(file, isLeftForLater ? check : undefined);
      return true;
    } catch (thrown) {
      if (!(thrown instanceof MillraceError && thrown.code === "pack_damaged")) throw thrown;
      report.note(`packed weights were damaged and are made anew: ${thrown.message}`);
      this.device.unmapFile(file);
      return false;
    }
  }

  /** Undefined when nothing is there to be packed. Throws what the file system throws. */
  #writePack(cache: PackCache, contentHash: string, matrices: readonly MatrixSpec[]): FoundPack | undefined {
    const { files, modelName, weightBytes } = this.options;
    using writer = cache.begin(contentHash, weightBytes, matrices.length);
    const staging = this.device.allocate(PIECE_BYTES + this.#largestGroup(matrices));
    try {
      const table = matrices.map((spec) => this.#packIntoFile(spec, writer, staging));
      if (table.every(({ byteOffset }) => byteOffset === undefined)) return undefined;
      this.options.report.progress("keeping the packed weights");
      const layoutVersion = cache.layoutVersion;
      writer.finish({ layoutVersion, contentHash, model: modelName, matrices: table });
      return cache.commit(writer, contentHash, files);
    } finally {
      this.device.release(staging);
    }
  }

  #packIntoFile(
    spec: MatrixSpec,
    writer: { startMatrix(): number; append(bytes: Uint8Array): void },
    staging: BufferHandle,
  ): PackedMatrix {
    const { name, start, rows, cols } = spec;
    const place = this.#find(spec);
    const entry = { name, start, rows, cols, type: place.type };
    if (packedActivations(place.type) === undefined) {
      this.#placeInRows(spec, place);
      return entry;
    }
    const byteOffset = writer.startMatrix();
    const view = new Uint8Array(this.device.view(staging));
    const sums: string[] = [];
    for (const [firstRow, numRows] of pieces(place.type, rows, cols)) {
      const numBytes = this.#packRows(place, cols, [firstRow, numRows], { buffer: staging, byteOffset: 0 });
      sums.push(this.device.checksum(staging, 0, numBytes));
      writer.append(view.subarray(0, numBytes));
    }
    this.#drop(place);
    return { ...entry, byteOffset, sum: matrixSum(sums) };
  }

  #packIntoMemory(spec: MatrixSpec): void {
    const { rows, cols } = spec;
    const place = this.#find(spec);
    const numBytes = packedByteLength(place.type, rows, cols);
    if (numBytes === undefined) {
      this.#placeInRows(spec, place);
      return;
    }
    const buffer = this.device.allocate(numBytes);
    let byteOffset = 0;
    for (const [firstRow, numRows] of pieces(place.type, rows, cols)) {
      byteOffset += this.#packRows(place, cols, [firstRow, numRows], { buffer, byteOffset });
    }
    this.#drop(place);
    this.#placePacked(spec, buffer, { byteOffset: 0, type: place.type });
    this.numBytes += numBytes;
  }

  /** Packs a few of a matrix's rows and gives the pages they were read from back. Returns the bytes it wrote. */
  #packRows(
    place: MatrixPlace,
    cols: number,
    [firstRow, numRows]: readonly [number, number],
    out: { readonly buffer: BufferHandle; readonly byteOffset: number },
  ): number {
    const rowBytes = rowByteLength(place.type, cols)!;
    const byteOffset = place.byteOffset + firstRow * rowBytes;
    const inRows = this.device.createWeight(place.memory, byteOffset, place.type, numRows, cols);
    this.#program.clear();
    this.#program.record("pack", { out: out.buffer, byteOffset: out.byteOffset, weight: inRows });
    this.device.submit(this.#program.words, this.#program.numWords);
    this.device.releaseWeight(inRows);
    const numBytes = numRows * rowBytes;
    if (place.isOwned !== true && this.#isLarge) {
      // Where the pack is kept, nobody will read the model's own rows again: they need not crowd the pack out of the OS's cache.
      const isEvicted = this.options.cache !== undefined;
      this.device.releasePages(place.memory as FileHandle, byteOffset, numBytes, isEvicted);
    }
    this.#numPackedSourceBytes += numBytes;
    this.#steps("packing the weights")(Math.min(1, this.#numPackedSourceBytes / this.options.weightBytes));
    return packedByteLength(place.type, numRows, cols)!;
  }

  #placePacked(
    spec: MatrixSpec,
    memory: FileHandle | BufferHandle,
    { byteOffset, type }: Pick<MatrixPlace, "byteOffset" | "type">,
  ): void {
    // Packed they are the same; the type says what they are multiplied with.
    const multiplied = type === "Q8_0" && this.options.activationDtype === "int8" ? "Q8_0_INT8" : type;
    const weight = this.device.createWeight(memory, byteOffset, multiplied, spec.rows, spec.cols, true);
    this.#placed.set(matrixKey(spec), { weight, activations: packedActivations(multiplied)! });
  }

  #placeInRows(spec: MatrixSpec, { memory, byteOffset, type }: MatrixPlace): void {
    const weight = this.device.createWeight(memory, byteOffset, type, spec.rows, spec.cols);
    this.#placed.set(matrixKey(spec), { weight, activations: "f32" });
  }

  #find({ name, totalRows, cols, start, rows }: MatrixSpec): MatrixPlace {
    return this.source.matrix(name, totalRows, cols, start, rows);
  }

  #drop({ memory, isOwned }: MatrixPlace): void {
    if (isOwned === true) this.device.release(memory as BufferHandle);
  }

  #largestGroup(matrices: readonly MatrixSpec[]): number {
    // No packed type takes more than nine bits a value.
    return Math.max(...matrices.map(({ cols }) => 2 * ROWS_PER_GROUP * cols));
  }

  /** Reports a stage's fraction now and then. */
  #steps(stage: string): (fraction: number) => void {
    return (fraction) => {
      if (fraction < this.#lastReported) this.#lastReported = 0;
      if (fraction < this.#lastReported + REPORT_STEP) return;
      this.#lastReported = fraction;
      this.options.report.progress(stage, fraction);
    };
  }
}
