/** The texts of single tokens. */
import type { Tokenizer } from "./tokenizer/tokenizer.js";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * A token's text. Bytes that are not valid UTF-8 by themselves are written as `bytes:\xe2\x82`, as OpenAI does, so that
 * different tokens stay distinct.
 */
export function tokenText(tokenizer: Tokenizer, tokenId: number): string {
  const piece = tokenPiece(tokenizer, tokenId);
  if (typeof piece === "string") return piece;
  return `bytes:${piece.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`;
}

/** A token's text, or its bytes where they are not valid UTF-8 by themselves, as in llama-server. */
export function tokenPiece(tokenizer: Tokenizer, tokenId: number): string | readonly number[] {
  const bytes = tokenizer.tokenBytes(tokenId);
  try {
    return decoder.decode(bytes);
  } catch {
    return [...bytes];
  }
}
