/** Opens files of unknown origin: regular ones only, and never more of them in memory than asked for. */
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { MillraceError } from "../../core/errors.js";

interface OpenFile extends Disposable {
  readonly path: string;
  readonly fd: number;
  readonly byteLength: number;
}

/** Throws `file_unreadable`. */
export function openFile(path: string): OpenFile {
  try {
    // Looked at before opening: opening a pipe would wait for its writer.
    if (statSync(path).isFile()) {
      const fd = openSync(path, "r");
      return { path, fd, byteLength: fstatSync(fd).size, [Symbol.dispose]: () => closeSync(fd) };
    }
  } catch (thrown) {
    throw unreadable(path, thrown instanceof Error ? thrown.message : String(thrown), thrown);
  }
  throw unreadable(path, "something that is not a regular file");
}

/** The bytes [byteOffset, byteOffset + numBytes) of a file that had them when it was opened. */
export function readExactly(file: OpenFile, byteOffset: number, numBytes: number): Buffer<ArrayBuffer> {
  const bytes = Buffer.alloc(numBytes);
  readInto(file, byteOffset, bytes);
  return bytes;
}

/** Fills `target` with the bytes from `byteOffset` on. */
export function readInto(file: OpenFile, byteOffset: number, target: Uint8Array): void {
  let numRead = 0;
  while (numRead < target.length) {
    const numNew = readSync(file.fd, target, numRead, target.length - numRead, byteOffset + numRead);
    if (numNew === 0) throw unreadable(file.path, `its end at byte ${byteOffset + numRead}`);
    numRead += numNew;
  }
}

function unreadable(path: string, got: string, cause?: unknown): MillraceError {
  return new MillraceError("file_unreadable", `expected a readable file at ${path}, got ${got}`, {
    hint: "Check the path and its permissions.",
    cause,
  });
}
