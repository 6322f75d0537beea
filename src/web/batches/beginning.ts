/** Reads the beginning of a file on the server, without transferring the rest. */
import { call } from "../api/client.js";

const READ_BYTES = 64 * 1024;

interface Beginning {
  readonly text: string;
  readonly isWhole: boolean;
}

/** @param path of a file of the signed-in client, relative to the page */
export async function beginningOf(path: string): Promise<Beginning> {
  const { body } = await call(path, { as: "client" });
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (reader !== undefined && text.length < READ_BYTES) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), isWhole: true };
    text += decoder.decode(value, { stream: true });
  }
  await reader?.cancel();
  return { text, isWhole: reader === undefined };
}

/** The beginning of a local file of the visitor's. */
export async function beginningOfFile(file: Blob): Promise<Beginning> {
  return { text: await file.slice(0, READ_BYTES).text(), isWhole: file.size <= READ_BYTES };
}
