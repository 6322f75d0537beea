/** Single tokens as texts of their own. */
import type { Tokenizer } from "./tokenizer/tokenizer.js";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A token's text; bytes that are no text by themselves are written `bytes:\xe2\x82`, as OpenAI does, which also keeps them apart. */
export function tokenText(tokenizer: Tokenizer, tokenId: number): string {
  const bytes = tokenizer.tokenBytes(tokenId);
  try {
    return decoder.decode(bytes);
  } catch {
    return `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`;
  }
}
