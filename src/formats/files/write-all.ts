/** Writes all bytes of a piece: one call may write a part of them. */
import { writeSync } from "node:fs";

/** @param position in the file */
export function writeAll(fd: number, piece: Uint8Array, position: number): void {
  let numWritten = 0;
  while (numWritten < piece.length) {
    numWritten += writeSync(fd, piece, numWritten, piece.length - numWritten, position + numWritten);
  }
}
