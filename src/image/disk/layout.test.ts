/** The sector numbers by which GRUB finds itself without grub-install. */
import { expect, test } from "vitest";
import { biosBootCode } from "./layout.js";

test("the boot sector names core.img's sector, core.img the next one, and the partition table's place stays free", () => {
  const bootSector = Buffer.alloc(512, 0xee);
  const core = Buffer.alloc(1024, 0xee);
  const placed = biosBootCode(bootSector, core, 2048);
  expect(placed.sector.length).toBe(440);
  expect(placed.sector.readBigUInt64LE(0x5c)).toBe(2048n);
  expect(placed.sector.readUInt16LE(0x66)).toBe(0x9090);
  expect(placed.core.readBigUInt64LE(0x1f4)).toBe(2049n);
  const isSame = (byte: number): boolean => byte === 0xee;
  expect([...placed.core.subarray(0, 0x1f4), ...placed.core.subarray(0x1fc)].every(isSame)).toBe(true);
  expect(core.every(isSame)).toBe(true);
});
