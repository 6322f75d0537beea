/** A hash of a model's content, by which models are told apart whatever their files are called. */
import { createHash } from "node:crypto";
import { closeSync, openSync, readSync, statSync } from "node:fs";

const PIECE_BYTES = 1 << 22;

/**
 * SHA-256 over the SHA-256 of each file, in hexadecimal digits. Reads all of them; `onProgress` hears how much is done,
 * from 0 to 1.
 */
export function contentHashOf(files: readonly string[], onProgress: (fraction: number) => void): string {
  const whole = createHash("sha256");
  const totalBytes = files.reduce((sum, file) => sum + statSync(file).size, 0);
  const piece = Buffer.alloc(PIECE_BYTES);
  let numDone = 0;
  for (const file of files) {
    const fd = openSync(file, "r");
    try {
      const hash = createHash("sha256");
      for (let numRead = readSync(fd, piece); numRead > 0; numRead = readSync(fd, piece)) {
        hash.update(piece.subarray(0, numRead));
        numDone += numRead;
        onProgress(numDone / totalBytes);
      }
      whole.update(hash.digest());
    } finally {
      closeSync(fd);
    }
  }
  return whole.digest("hex");
}
