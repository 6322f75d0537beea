/** Loads the compiled addon and turns its errors into MillraceErrors. */
import { createRequire } from "node:module";
import { type ErrorCode, MillraceError } from "../../../core/errors.js";
import type { WeightType } from "../../../formats/dequantize.js";
import type { KvBytes } from "../../backend.js";
import type { BufferHandle, WeightHandle, WeightStackHandle } from "../../handles.js";
import { OP_NAMES, signatureOf } from "../../ops.js";
import { findAddon, missingHint } from "./find.js";
import type { CpuFeatures, DeviceOptions, FileHandle, Isa, KernelDevice, KernelLibrary } from "./kernels.js";

export const FILE_CHANGED_HINT =
  "start again; to replace a file that is in use, move the new file to its path instead of writing to the old one";

/** Hint for each error code that the addon throws. */
const HINTS = {
  kernels_argument: "this is a defect in the code that recorded the operation; please report it",
  out_of_memory: "lower --kv-cache-memory-bytes or --max-model-len, or free memory",
  file_unreadable: "check the path and its permissions",
  model_file_changed: FILE_CHANGED_HINT,
  kernels_isa: "leave MILLRACE_ISA unset to let the CPU decide",
} as const satisfies Partial<Record<ErrorCode, string>>;

let loaded: KernelLibrary | undefined;

/** Returns the addon, loaded once per thread. Throws `kernels_missing` if it is missing or does not match this code. */
export function loadKernels(): KernelLibrary {
  loaded ??= wrapLibrary(requireAddon(findAddon("millrace.node")));
  return loaded;
}

function requireAddon(file: string): KernelLibrary {
  let addon: KernelLibrary;
  try {
    addon = createRequire(import.meta.url)(file) as KernelLibrary;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new MillraceError("kernels_missing", `expected kernels that this Node can load, got: ${reason}`, {
      hint: missingHint(),
      cause,
    });
  }
  requireOurOperations(addon);
  return addon;
}

/**
 * Throws `kernels_missing` if the addon was compiled from another operation table. Very old addons do not report
 * theirs.
 */
export function requireOurOperations(addon: Partial<Pick<KernelLibrary, "opSignatures">>): void {
  const got = addon.opSignatures?.() ?? [];
  for (let opcode = 0; opcode < Math.max(got.length, OP_NAMES.length); opcode++) {
    const name = OP_NAMES[opcode];
    const wanted = name === undefined ? "none" : signatureOf(name);
    if (got[opcode] === wanted) continue;
    throw new MillraceError(
      "kernels_missing",
      `expected kernels whose operation ${opcode} is ${wanted}, got ${got[opcode] ?? "none"}`,
      { hint: missingHint() },
    );
  }
}

function wrapLibrary(addon: KernelLibrary): KernelLibrary {
  return {
    createDevice: (options) => createDevice(addon, options),
    cpuFeatures: (): CpuFeatures => addon.cpuFeatures(),
    opSignatures: () => addon.opSignatures(),
    packedLayoutVersion: () => addon.packedLayoutVersion(),
    packedForm: (type) => guard(() => addon.packedForm(type)),
    packedByteLength: (type, rows, cols) => guard(() => addon.packedByteLength(type, rows, cols)),
    activationRowBytes: (format, cols) => guard(() => addon.activationRowBytes(format, cols)),
  };
}

function createDevice(addon: KernelLibrary, options: DeviceOptions): KernelDevice {
  const isa = options.isa ?? isaFromEnvironment();
  const device = guard(() => addon.createDevice({ ...options, ...(isa === undefined ? {} : { isa }) }));
  return new NativeDevice(device);
}

/** The name is not checked here: the addon rejects an unknown one with `kernels_isa`. */
function isaFromEnvironment(): Isa | undefined {
  const isa = process.env.MILLRACE_ISA;
  return isa === undefined || isa === "" ? undefined : (isa as Isa);
}

class NativeDevice implements KernelDevice {
  readonly isa: Isa;
  readonly numThreads: number;
  readonly #native: KernelDevice;

  constructor(native: KernelDevice) {
    this.#native = native;
    this.isa = native.isa;
    this.numThreads = native.numThreads;
  }

  allocate(byteLength: number): BufferHandle {
    return guard(() => this.#native.allocate(byteLength));
  }

  view(buffer: BufferHandle): ArrayBuffer {
    return guard(() => this.#native.view(buffer));
  }

  read(buffer: BufferHandle, byteOffset: number, target: Uint8Array): void {
    guard(() => this.#native.read(buffer, byteOffset, target));
  }

  write(buffer: BufferHandle, byteOffset: number, source: Uint8Array): void {
    guard(() => this.#native.write(buffer, byteOffset, source));
  }

  release(buffer: BufferHandle): void {
    guard(() => this.#native.release(buffer));
  }

  mapFile(path: string): FileHandle {
    return guard(() => this.#native.mapFile(path));
  }

  unmapFile(file: FileHandle): void {
    guard(() => this.#native.unmapFile(file));
  }

  releasePages(file: FileHandle, byteOffset: number, byteLength: number, isEvicted: boolean): void {
    guard(() => this.#native.releasePages(file, byteOffset, byteLength, isEvicted));
  }

  prefetch(file: FileHandle): void {
    guard(() => this.#native.prefetch(file));
  }

  checksum(source: FileHandle | BufferHandle, byteOffset: number, byteLength: number): string {
    return guard(() => this.#native.checksum(source, byteOffset, byteLength));
  }

  requireUnchanged(shared: readonly FileHandle[]): void {
    guard(() => this.#native.requireUnchanged(shared));
  }

  pinThreads(cpus: readonly number[]): void {
    guard(() => this.#native.pinThreads(cpus));
  }

  createWeight(
    source: FileHandle | BufferHandle,
    byteOffset: number,
    type: WeightType,
    rows: number,
    cols: number,
    isPacked = false,
  ): WeightHandle {
    return guard(() => this.#native.createWeight(source, byteOffset, type, rows, cols, isPacked));
  }

  createWeightStack(weights: readonly WeightHandle[]): WeightStackHandle {
    return guard(() => this.#native.createWeightStack(weights));
  }

  releaseWeight(weight: WeightHandle): void {
    guard(() => this.#native.releaseWeight(weight));
  }

  submit(program: Float64Array, numWords: number): void {
    guard(() => this.#native.submit(program, numWords));
  }

  kvBytes(): KvBytes {
    return guard(() => this.#native.kvBytes());
  }

  destroy(): void {
    guard(() => this.#native.destroy());
  }
}

function guard<Result>(call: () => Result): Result {
  try {
    return call();
  } catch (thrown) {
    throw wrapError(thrown);
  }
}

/** Errors that the addon throws have a `code` of ours; any other error means a wrong argument. */
function wrapError(thrown: unknown): MillraceError {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const given = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
  const code = isKnownCode(given) ? given : "kernels_argument";
  return new MillraceError(code, message, { hint: HINTS[code], cause: thrown });
}

function isKnownCode(code: unknown): code is keyof typeof HINTS {
  return typeof code === "string" && Object.hasOwn(HINTS, code);
}
