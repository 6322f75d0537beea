/** The text of another server's answer, whose length is unbounded. */

/** Throws beyond `maxBytes` and stops reading. */
export async function limitedText(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let numBytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    numBytes += chunk.length;
    if (numBytes > maxBytes) throw new Error(`expected an answer of at most ${maxBytes} bytes, got more`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
