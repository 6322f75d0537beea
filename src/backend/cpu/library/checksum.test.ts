import { expect, test } from "vitest";
import { createReferenceDevice } from "../../../../test/reference/device.js";
import type { BufferHandle } from "../../handles.js";
import type { FileHandle } from "./kernels.js";
import { loadKernels } from "./load.js";

const devices = [loadKernels().createDevice({ numThreads: 1 }), createReferenceDevice()];

function sums(bytes: Uint8Array, byteOffset = 0, byteLength = bytes.length): readonly string[] {
  return devices.map((device) => {
    const buffer = device.allocate(bytes.length);
    device.write(buffer, 0, bytes);
    return device.checksum(buffer, byteOffset, byteLength);
  });
}

test.each([0, 1, 7, 8, 63, 64, 65, 500])("the checksum of %i bytes equals the reference's", (length) => {
  const bytes = Uint8Array.from({ length: length + 3 }, (_, i) => (i * i * 37 + 11) & 0xff);
  const [native, reference] = sums(bytes, 3, length);
  expect(native).toMatch(/^[0-9a-f]{16}$/);
  expect(native).toBe(reference);
});

test("the checksum never changes, because packs store it", () => {
  expect(sums(new TextEncoder().encode("a mill race"))[0]).toBe("27b03d235df11727");
});

test("a range outside its source and an unknown source are refused", () => {
  const [device] = devices;
  const buffer = device!.allocate(64);
  const refused = (source: BufferHandle | FileHandle, offset: number, length: number) =>
    expect(() => device!.checksum(source, offset, length)).toThrow(
      expect.objectContaining({ code: "kernels_argument" }),
    );
  refused(buffer, 0, 65);
  refused(buffer, 65, 0);
  refused(buffer, -1, 1);
  refused(buffer, 0, Number.NaN);
  refused(0 as BufferHandle, 0, 0);
  expect(() => device!.requireUnchanged([7 as FileHandle])).toThrow(/expected the handle of a file/);
});
