/** Parts of a file that distinguish it from others of the same size, for files too large to read completely. */

/** A range of bytes in a file. */
export interface FilePart {
  readonly byteOffset: number;
  readonly byteLength: number;
}

const SAMPLE_BYTES = 4096;
const NUM_SAMPLES = 64;

/** NUM_SAMPLES evenly spaced ranges, including the first and the last SAMPLE_BYTES of the file. */
export function samplesOf(fileBytes: number): readonly FilePart[] {
  if (fileBytes <= NUM_SAMPLES * SAMPLE_BYTES) return [{ byteOffset: 0, byteLength: fileBytes }];
  const distance = (fileBytes - SAMPLE_BYTES) / (NUM_SAMPLES - 1);
  return Array.from({ length: NUM_SAMPLES }, (_, i) => ({
    byteOffset: Math.floor(i * distance),
    byteLength: SAMPLE_BYTES,
  }));
}
