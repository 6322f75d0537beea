/**
 * Puts a model's matrices into the kernels' packed layout: maps a pack from the cache, writes one to it, or packs into
 * memory.
 */
import { MillraceError } from "../../core/errors.js";
import type { FilePart } from "../../core/file-samples.js";
import { contentHashOf } from "../../formats/content-hash.js";
import { rowByteLength, type WeightType } from "../../formats/dequantize.js";
import type { ActivationDtype, AnyWeight, LoadReport, WeightSet } from "../backend.js";
import type { BufferHandle, WeightHandle } from "../handles.js";
import type { ActivationFormat } from "../ops.js";
import { Program } from "../program.js";
import type { MatrixSpec } from "../tensor-source.js";
import type { FileWatch } from "./file-watch.js";
import type { FileHandle, KernelDevice } from "./library/kernels.js";
import { isPackable, packedByteLength, packedGroupRows } from "./library/packing.js";
import type { FoundPack, PackCache } from "./packs/pack-cache.js";
import { matrixSum, PackCheck } from "./packs/pack-check.js";
import type { PackedMatrix } from "./packs/pack-file.js";
import { PIECE_BYTES, pieces } from "./packs/pieces.js";
import { activationsOf, productType } from "./product-type.js";
import type { MappedFile } from "./watched-file.js";

interface ModelFile extends MappedFile {
  readonly parts: FilePart[];
}

interface PackerOptions {
  readonly activationDtype: ActivationDtype;
  readonly cache: PackCache | undefined;
  readonly report: LoadReport;
  /** Memory that is left for the weights. */
  readonly freeBytes: number;
}

/** Location of a matrix's rows, as `createWeight` takes it. */
interface MatrixPlace {
  readonly memory: FileHandle | BufferHandle;
  readonly byteOffset: number;
  readonly type: WeightType;
  /**
   * The file that `memory` is a mapping of; undefined if `memory` is a buffer of converted rows, to be released after
   * packing.
   */
  readonly mapped: ModelFile | undefined;
}

/** Smaller models are packed faster than a pack is found. */
const MIN_CACHED_BYTES = 2 ** 26;
/** Larger packs are verified in the background while they serve: reading 2 GiB takes a third of a second. */
const CHECKED_FIRST_BYTES = 2 ** 31;
const REPORT_STEP = 0.02;

export class WeightPacker {
  /** Bytes of the packed matrices in memory of their own. */
  numOwnBytes = 0;
  /**
   * Bytes of the matrices in the mapped pack and in the model's mapped files, whose pages the system drops and reads
   * again as it needs.
   */
  numMappedBytes = 0;
  readonly #placed = new Map<MatrixSpec, WeightHandle>();
  readonly #types = new Map<MatrixSpec, WeightType>();
  /** Keyed by path. */
  readonly #mapped = new Map<string, ModelFile>();
  readonly #program = new Program();
  readonly #isLarge: boolean;
  /** Whether the memory that is left holds the weights. */
  readonly #fits: boolean;
  readonly #cache: PackCache | undefined;
  #numPackedSourceBytes = 0;
  #lastReported = 0;

  constructor(
    private readonly device: KernelDevice,
    private readonly weights: WeightSet,
    private readonly options: PackerOptions,
    private readonly watch: FileWatch,
    /** Receives the activation format of each packed weight. */
    private readonly formats: Map<AnyWeight, ActivationFormat>,
  ) {
    this.#isLarge = weights.numBytes >= (options.cache?.minModelBytes ?? MIN_CACHED_BYTES);
    this.#fits = weights.memoryBytes <= options.freeBytes;
    this.#cache = this.#isLarge && weights.files.length > 0 ? options.cache : undefined;
  }

  /**
   * Places every matrix and returns the handles in order. A matrix is packed if its type has a packed form. Matrices
   * that keep their values stay in rows, and so do all where activations stay f32: that is the arithmetic that others
   * are compared with.
   */
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

  /** Returns false if there is no usable cache, with a note if it failed; matrices can then be packed into memory. */
  #placeFromCache(matrices: readonly MatrixSpec[]): boolean {
    const { files, part } = this.weights;
    const cache = this.#cache;
    // A model that is used as it is stored has no pack, and looking for one would read the whole model.
    if (cache === undefined || !matrices.some((spec) => this.#isPackable(spec))) return false;
    try {
      const known = cache.find(this.weights);
      if (known !== undefined && this.#bindPack(known, matrices)) return true;
      const { report } = this.options;
      const filesHash = contentHashOf(files, this.#reporterOf("reading the model"));
      const contentHash = part === undefined ? filesHash : `${filesHash} ${part}`;
      const moved = cache.findContent(contentHash, this.weights);
      if (moved !== undefined && this.#bindPack(moved, matrices)) return true;
      const table = this.#writePack(cache, contentHash, matrices);
      if (table === undefined) return false;
      report.progress("mapping weights, reserving KV memory");
      return this.#bindPack(table, matrices);
    } catch (thrown) {
      if (thrown instanceof MillraceError) throw thrown;
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      // #packIntoMemory says which ones.
      const exception = this.#fits ? "" : ", except 16-bit weights, which do not fit into memory";
      this.options.report.note(
        `packed weights could not be cached, so every start packs them again${exception}: ${reason}`,
      );
      this.#numPackedSourceBytes = 0;
      return false;
    }
  }

  /** Returns false if the pack holds other matrices, is damaged or has been removed. */
  #bindPack({ path, table }: FoundPack, matrices: readonly MatrixSpec[]): boolean {
    const isSame = (spec: MatrixSpec, index: number): boolean => {
      const { name, start, rows, cols, type, byteOffset } = table.matrices[index]!;
      const isSamePart = spec.name === name && spec.start === start && spec.rows === rows && spec.cols === cols;
      // A version that had no packed form of the type left the matrix where it was, and another one may read it as
      // another type.
      return isSamePart && type === this.#typeOf(spec) && this.#isPackable(spec) === (byteOffset !== undefined);
    };
    if (table.matrices.length !== matrices.length || !matrices.every(isSame)) return false;
    let file: FileHandle;
    try {
      file = this.device.mapFile(path);
    } catch {
      // The pack was removed after its table was read.
      return false;
    }
    // If a pack does not fit into memory, the pages read last would push out those read first.
    if (table.fileBytes <= this.options.freeBytes) this.device.prefetch(file);
    if (!this.#isIntact({ path, table }, file)) return false;
    table.matrices.forEach(({ type, rows, cols, byteOffset }, index) => {
      const spec = matrices[index]!;
      if (this.#placed.has(spec)) return;
      if (byteOffset === undefined) this.#placeInRows(spec, this.#find(spec));
      else this.#placePacked(spec, file, { byteOffset, type });
      this.numMappedBytes += byteOffset === undefined ? 0 : packedByteLength(type, rows, cols)!;
    });
    return true;
  }

  /**
   * Returns false, after a note, if the pack is damaged. A large pack is accepted here and verified in the background.
   */
  #isIntact(pack: FoundPack, file: FileHandle): boolean {
    const { report } = this.options;
    const check = new PackCheck(this.device, file, pack);
    const isLeftForLater = pack.table.fileBytes > CHECKED_FIRST_BYTES;
    try {
      while (!isLeftForLater && check.step()) {}
      this.watch.addPack(file, isLeftForLater ? check : undefined);
      return true;
    } catch (thrown) {
      if (!(thrown instanceof MillraceError && thrown.code === "pack_damaged")) throw thrown;
      report.note(`packed weights were damaged and are packed again: ${thrown.message}`);
      this.device.unmapFile(file);
      return false;
    }
  }

  /** Returns undefined if the pack was removed at once. Throws file system errors. */
  #writePack(cache: PackCache, contentHash: string, matrices: readonly MatrixSpec[]): FoundPack | undefined {
    const { name } = this.weights;
    let numBytes = 0;
    let groupBytes = 0;
    for (const spec of matrices.filter((each) => this.#isPackable(each))) {
      const type = this.#typeOf(spec);
      numBytes += packedByteLength(type, spec.rows, spec.cols)!;
      groupBytes = Math.max(groupBytes, packedByteLength(type, packedGroupRows(type), spec.cols)!);
    }
    using writer = cache.begin(contentHash, numBytes, matrices.length);
    const staging = this.device.allocate(PIECE_BYTES + groupBytes);
    try {
      const table = matrices.map((spec) => this.#packIntoFile(spec, writer, staging));
      this.options.report.progress("keeping the packed weights");
      const layoutVersion = cache.layoutVersion;
      writer.finish({ layoutVersion, contentHash, model: name, matrices: table });
      return cache.commit(writer, contentHash, this.weights);
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
    if (!this.#isPackable(spec)) {
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
    // Rows of 16 bits are multiplied as they are stored, too: mapped, they need no memory of their own.
    const isBestMapped = (place.type === "F16" || place.type === "BF16") && place.mapped !== undefined && !this.#fits;
    if (isBestMapped || !this.#isPackable(spec)) {
      this.#placeInRows(spec, place);
      return;
    }
    const numBytes = packedByteLength(place.type, rows, cols)!;
    const buffer = this.device.allocate(numBytes);
    let byteOffset = 0;
    for (const [firstRow, numRows] of pieces(place.type, rows, cols)) {
      byteOffset += this.#packRows(place, cols, [firstRow, numRows], { buffer, byteOffset });
    }
    this.#drop(place);
    this.#placePacked(spec, buffer, { byteOffset: 0, type: place.type });
    this.numOwnBytes += numBytes;
  }

  /** Packs some of a matrix's rows and releases the pages they were read from. Returns the number of bytes written. */
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
      // If the pack is kept, the unpacked rows will not be read again and should not crowd the pack out of the page
      // cache.
      const isEvicted = this.#cache !== undefined;
      this.device.releasePages(place.mapped.file, byteOffset, numBytes, isEvicted);
    }
    this.#numPackedSourceBytes += numBytes;
    this.#reporterOf("packing the weights")(Math.min(1, this.#numPackedSourceBytes / this.weights.numBytes));
    return packedByteLength(place.type, numRows, cols)!;
  }

  #placePacked(
    spec: MatrixSpec,
    memory: FileHandle | BufferHandle,
    { byteOffset, type }: Pick<MatrixPlace, "byteOffset" | "type">,
  ): void {
    const { activationDtype } = this.options;
    this.#placeWeight(spec, memory, { byteOffset, type: productType(type, activationDtype, this.device.isa) }, true);
  }

  #placeInRows(spec: MatrixSpec, { memory, byteOffset, type, mapped }: MatrixPlace): void {
    this.#placeWeight(spec, memory, { byteOffset, type }, false);
    if (mapped === undefined) return;
    const byteLength = spec.rows * rowByteLength(type, spec.cols)!;
    mapped.parts.push({ byteOffset, byteLength });
    this.numMappedBytes += byteLength;
  }

  #placeWeight(
    spec: MatrixSpec,
    memory: FileHandle | BufferHandle,
    { byteOffset, type }: Pick<MatrixPlace, "byteOffset" | "type">,
    isPacked: boolean,
  ): void {
    const weight = this.device.createWeight(memory, byteOffset, type, spec.rows, spec.cols, isPacked);
    this.#placed.set(spec, weight);
    const format = activationsOf(type, isPacked);
    if (format !== "f32") this.formats.set(weight, format);
  }

  #typeOf(spec: MatrixSpec): WeightType {
    const type = this.#types.get(spec) ?? this.weights.source.matrix(spec).type;
    this.#types.set(spec, type);
    return type;
  }

  #isPackable(spec: MatrixSpec): boolean {
    return isPackable(this.#typeOf(spec), spec.cols);
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

  /** Returns a function that reports the stage's progress, at most once per REPORT_STEP. */
  #reporterOf(stage: string): (fraction: number) => void {
    return (fraction) => {
      if (fraction < this.#lastReported) this.#lastReported = 0;
      if (fraction < this.#lastReported + REPORT_STEP) return;
      this.#lastReported = fraction;
      this.options.report.progress(stage, fraction);
    };
  }
}
