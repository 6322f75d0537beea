/**
 * The disk: a GPT with GRUB's BIOS boot partition, an EFI system partition, and an ext4 root as the last one, so that
 * it can grow. All parts are written at their offsets in one sparse file, since containers and many build machines have
 * no loop devices.
 */
import { closeSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { type DiskStage, runProgram } from "./run-program.js";

const SECTOR = 512;
const BLOCK = 4096;
const MIB = 2 ** 20;

const BIOS = { start: MIB, bytes: MIB };
/** GRUB is one file; the kernels stay in the root. */
const ESP = { start: 2 * MIB, bytes: 32 * MIB };
const ROOT_START = 34 * MIB;
/** The table's copy at the disk's end. */
const TAIL = MIB;

/** File system label. A label instead of a UUID: boot files can be written before the file system. */
export const ROOT_LABEL = "millrace";

/** Types from the UEFI specification, GRUB's manual, and the Discoverable Partitions Specification. */
const TABLE = [
  "label: gpt",
  `start=${BIOS.start / SECTOR}, size=${BIOS.bytes / SECTOR}, name=bios, type=21686148-6449-6E6F-744E-656564454649`,
  `start=${ESP.start / SECTOR}, size=${ESP.bytes / SECTOR}, name=esp, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B`,
  `start=${ROOT_START / SECTOR}, name=root, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709`,
  "",
].join("\n");

/** Files for the disk's firmware, made by GRUB's own programs. */
interface BootFiles {
  /** boot.img: the first sector. */
  readonly bootSector: string;
  /** core.img for BIOS. */
  readonly biosCore: string;
  /** A folder that becomes the EFI partition's EFI. */
  readonly efiFolder: string;
}

/** Offsets from GRUB's include/grub/i386/pc/boot.h, 2.12. */
const KERNEL_SECTOR = 0x5c;
const DRIVE_CHECK = 0x66;
/** The first sector is code up to here; the partition table follows. */
const CODE_BYTES = 440;
/** In core.img's first sector: the last entry of the list of sectors with the rest of core.img. */
const FIRST_BLOCK_LIST = SECTOR - 12;

/**
 * The boot sector finds core.img, and core.img finds its rest, by sector numbers, which grub-install would write on a
 * real disk.
 */
export function biosBootCode(
  bootSector: Uint8Array,
  core: Uint8Array,
  coreSector: number,
): { readonly sector: Buffer; readonly core: Buffer } {
  const sector = Buffer.from(bootSector.subarray(0, CODE_BYTES));
  sector.writeBigUInt64LE(BigInt(coreSector), KERNEL_SECTOR);
  // No-ops replace a jump: some firmware passes a wrong drive number, which GRUB then corrects.
  sector.fill(0x90, DRIVE_CHECK, DRIVE_CHECK + 2);
  const placed = Buffer.from(core);
  placed.writeBigUInt64LE(BigInt(coreSector + 1), FIRST_BLOCK_LIST);
  return { sector, core: placed };
}

function writeAt(file: string, parts: readonly (readonly [position: number, bytes: Uint8Array])[]): void {
  const handle = openSync(file, "r+");
  try {
    for (const [position, bytes] of parts) writeSync(handle, bytes, 0, bytes.length, position);
  } finally {
    closeSync(handle);
  }
}

/** @param file created anew, as a sparse file */
export async function writeDisk(
  stage: DiskStage,
  file: string,
  sizeBytes: number,
  root: string,
  boot: BootFiles,
): Promise<void> {
  writeFileSync(file, "");
  truncateSync(file, sizeBytes);
  await runProgram(stage, ["sfdisk", "--quiet", file], { stdin: TABLE });
  const numBlocks = Math.floor((sizeBytes - ROOT_START - TAIL) / BLOCK);
  // GRUB cannot read the two newest features.
  const features = "^orphan_file,^metadata_csum_seed";
  const place = ["-E", `offset=${ROOT_START},lazy_itable_init=1`, "-O", features, "-L", ROOT_LABEL, "-d", root];
  await runProgram(stage, ["mkfs.ext4", "-q", "-F", ...place, file, `${numBlocks * (BLOCK / 1024)}k`], {
    hint: "give a larger --size if the system does not fit",
  });
  // mkfs.vfat counts its offset in sectors and its size in KiB.
  const esp = ["-F", "16", "--offset", String(ESP.start / SECTOR), "-n", "ESP", file, String(ESP.bytes / 1024)];
  await runProgram(stage, ["mkfs.vfat", ...esp]);
  await runProgram(stage, ["mcopy", "-s", "-i", `${file}@@${ESP.start}`, boot.efiFolder, "::/"]);
  const code = biosBootCode(readFileSync(boot.bootSector), readFileSync(boot.biosCore), BIOS.start / SECTOR);
  writeAt(file, [
    [0, code.sector],
    [BIOS.start, code.core],
  ]);
}
