/** Values that operations read and that never change. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";

export function constants(backend: Backend, values: Int32Array | Float32Array): BufferHandle {
  const buffer = backend.allocate(values.byteLength);
  backend.write(buffer, 0, values);
  return buffer;
}
