/** GGML's encoders behind our encoders' interface, so that the same code writes a file with either. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("ggml-encode.py", import.meta.url));
const MOST_BYTES = 2 ** 31;

const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength);

function python(args, input) {
  const { status, stdout, stderr, error } = spawnSync("python3", [PROGRAM, ...args], { input, maxBuffer: MOST_BYTES });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`GGML's encoder failed: ${stderr.toString().trim()}`);
  return stdout;
}

/**
 * The methods of a RowEncoder for block types, without feedback.
 * @param library the path of llama.cpp's `libggml-base.so`
 */
export function ggmlEncoder(library) {
  return {
    version: python([library, "version"]).toString().trim(),
    encode(type, values, cols, importance) {
      const parts = importance === undefined ? [bytesOf(values)] : [bytesOf(importance), bytesOf(values)];
      return python([library, type, String(cols), importance === undefined ? "0" : "1"], Buffer.concat(parts));
    },
  };
}
