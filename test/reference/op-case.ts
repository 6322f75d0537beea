/** One case of the conformance suite. */
import type { BufferHandle } from "../../src/backend/handles.js";
import type { OpName } from "../../src/backend/ops.js";
import type { Bench, Tolerance } from "./compare.js";

/** One buffer to compare, read as `as`; i32 and bytes exactly. */
export type Result = { readonly name: string; readonly handle: BufferHandle } & (
  | { readonly as: "f32" | "f16"; readonly tolerance: Tolerance }
  | { readonly as: "i32" | "bytes" }
);

export interface OpCase {
  readonly op: OpName;
  readonly label: string;
  /** Records the operation; the same inputs on every bench. */
  readonly record: (bench: Bench) => readonly Result[];
}
