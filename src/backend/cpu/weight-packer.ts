/** Brings a model's matrices into the layout the kernels compute fastest with: from the cache of packs, into it, or into memory. */
import { MillraceError } from "../../core/errors.js";
import { contentHashOf } from "../../formats/content-hash.js";
import { rowByteLength, type WeightType } from "../../formats/dequantize.js";
import type { ActivationDtype, LoadReport, WeightSet } from "../backend.js";
import type { BufferHandle, WeightHandle } from "../handles.js";
import type { ActivationFormat } from "../ops.js";
import { Program } from "../program.js";
import type { MatrixSpec } from "../tensor-source.js";
import type { FileWatch } from "./file-watch.js";
import type { FileHandle, KernelDevice } from "./library/kernels.js";
import { packedActivations, packedByteLength } from "./library/packing.js";
import type { FoundPack, PackCache } from "./packs/pack-cache.js";
import { matrixSum, PackCheck } from "./packs/pack-check.js";
import type { PackedMatrix } from "./packs/pack-file.js";
import { PIECE_BYTES, pieces, ROWS_PER_GROUP } from "./packs/pieces.js";
import type { FilePart, MappedFile } from "./watched-file.js";

interface ModelFile extends MappedFile {
  readonly parts: FilePart[];
}

interface PackerOptions {
  readonly activationDtype: ActivationDtype;
  readonly cache: PackCache | undefined;
  readonly report: LoadReport;
}

/** Rows of a matrix as `createWeight` takes them. */
interface MatrixPlace {
  readonly memory: FileHandle | BufferHandle;
  readonly byteOffset: number;
  readonly type: WeightType;
  /** The file that `memory` is; undefined: a buffer for this matrix alone, of no use where the matrix is laid out otherwise. */
  readonly mapped: ModelFile | undefined;
}

/** Below this a model is packed in less time than it takes to look for it. */
const MIN_CACHED_BYTES = 2 ** 26;
/** Larger packs are looked at while they serve already: reading one this large takes a third of a second. */
const CHECKED_FIRST_BYTES = 2 ** 31;
const REPORT_STEP = 0.02;

export class WeightPacker {
  /** Bytes the packed matrices take, in memory or in the mapped pack. */
  numBytes = 0;
  readonly #placed = new Map<MatrixSpec, WeightHandle>();
  /** By path. */
  readonly #mapped = new Map<string, ModelFile>();
  readonly #program = new Program();
  readonly #isLarge: boolean;
  readonly #cache: PackCache | undefined;
  #numPackedSourceBytes = 0;
  #lastReported = 0;

  constructor(
    private readonly device: KernelDevice,
    private readonly weights: WeightSet,
    private readonly options: PackerOptions,
    private readonly watch: FileWatch,
    /** Receives what the left operand of products with a weight must be, where it is not f32. */
    private readonly formats: Map<WeightHandle, ActivationFormat>,
  ) {
    this.#isLarge = weights.numBytes >= MIN_CACHED_BYTES;
    this.#cache = this.#isLarge && weights.files.length > 0 ? options.cache : undefined;
  }

  /** Every matrix in turn, packed where its type has a packed form. */
  place(): readonly WeightHandle[] {
    const { matrices } = this.weights;
    const arePacked = this.options.activationDtype !== "f32";
    const [packed, inRows] = [
      matrices.filter(({ keepsValues }) => arePacked && keepsValues !== true),
      matrices.filter(({ keepsValues }) => !arePacked || keepsValues === true),
    ];
    if (packed.length > 0 && !this.#placeFromCache(packed)) {
      for (const spec of packed) if (!this.#placed.has(spec)) this.#packIntoMemory(spec);
    }
    for (const spec of inRows) this.#placeInRows(spec, this.#find(spec));
    this.watch.addModel([...this.#mapped.values()]);
    return matrices.map((spec) => this.#placed.get(spec)!);
  }

  /** False, after a note, where the cache cannot serve: packing into memory always can. */
  #placeFromCache(matrices: readonly MatrixSpec[]): boolean {
    const { files } = this.weights;
    const cache = this.#cache;
    if (cache === undefined) return false;
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
      if (this.#placed.has(spec)) return;
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
      this.watch.addPack(file, isLeftForLater ? check : undefined);
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
    const { files, name, numBytes } = this.weights;
    using writer = cache.begin(contentHash, numBytes, matrices.length);
    const staging = this.device.allocate(PIECE_BYTES + this.#largestGroup(matrices));
    try {
      const table = matrices.map((spec) => this.#packIntoFile(spec, writer, staging));
      if (table.every(({ byteOffset }) => byteOffset === undefined)) return undefined;
      this.options.report.progress("keeping the packed weights");
      const layoutVersion = cache.layoutVersion;
      writer.finish({ layoutVersion, contentHash, model: name, matrices: table });
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
    if (place.mapped !== undefined && this.#isLarge) {
      // Where the pack is kept, nobody will read the model's own rows again: they need not crowd the pack out of the OS's cache.
      const isEvicted = this.#cache !== undefined;
      this.device.releasePages(place.mapped.file, byteOffset, numBytes, isEvicted);
    }
    this.#numPackedSourceBytes += numBytes;
    this.#steps("packing the weights")(Math.min(1, this.#numPackedSourceBytes / this.weights.numBytes));
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
    this.#placed.set(spec, weight);
    this.formats.set(weight, packedActivations(multiplied)!);
  }

  #placeInRows(spec: MatrixSpec, { memory, byteOffset, type, mapped }: MatrixPlace): void {
    const { rows, cols } = spec;
    this.#placed.set(spec, this.device.createWeight(memory, byteOffset, type, rows, cols));
    mapped?.parts.push({ byteOffset, byteLength: rows * rowByteLength(type, cols)! });
  }

  #find(spec: MatrixSpec): MatrixPlace {
    const rows = this.weights.source.matrix(spec);
    const { type } = rows;
    if ("path" in rows) {
      const mapped = this.#map(rows.path);
      return { memory: mapped.file, byteOffset: rows.byteOffset, type, mapped };
    }
    const memory = this.device.allocate(spec.rows * rowByteLength(type, spec.cols)!);
    rows.convert(this.device.view(memory));
    return { memory, byteOffset: 0, type, mapped: undefined };
  }

  #map(path: string): ModelFile {
    const known = this.#mapped.get(path) ?? { file: this.device.mapFile(path), path, parts: [] };
    this.#mapped.set(path, known);
    return known;
  }

  #drop({ memory, mapped }: MatrixPlace): void {
    if (mapped === undefined) this.device.release(memory as BufferHandle);
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
