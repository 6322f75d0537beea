/** The lines of an untrusted stream of bytes: an endless line is skipped in bounded memory. */

const NEWLINE = 0x0a;

/** @returns the lines that are not empty, without their line breaks; undefined: a line is longer than `maxBytes` */
export async function* splitLines(chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer | undefined> {
  let parts: Buffer[] = [];
  let numBytes = 0;
  const add = (part: Buffer): void => {
    numBytes += part.length;
    if (numBytes <= maxBytes) parts.push(part);
    else parts = [];
  };
  const take = (): Buffer | undefined => {
    const line = numBytes <= maxBytes ? Buffer.concat(parts) : undefined;
    [parts, numBytes] = [[], 0];
    return line;
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      add(chunk.subarray(from, end));
      from = end + 1;
      if (numBytes > 0) yield take();
    }
    add(chunk.subarray(from));
  }
  if (numBytes > 0) yield take();
}
