/** Writes all bytes of a piece: one call may write a part of them. */
import { writeSync } from "node:fs";

export function writeAll(fd: number, piece: Uint8Array): void {
  let numWritten = 0;
  while (numWritten < piece.length) numWritten += writeSync(fd, piece, numWritten);
}
