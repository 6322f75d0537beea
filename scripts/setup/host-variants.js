/**
 * Which instruction sets of the kernels this machine runs. A start in a checkout compiles the kernels for these alone;
 * tests and packages have all of them. The names and what each needs are those of native/cpu/runtime/cpu.cc.
 */
import { closeSync, openSync, readSync } from "node:fs";

const AVX2 = ["avx2", "fma", "f16c"];
/** From the least to the best, with the flags that /proc/cpuinfo shows for it beside those of the one before. */
const LADDERS = {
  x64: [
    ["avx2", AVX2],
    ["avx512", ["avx512f", "avx512bw", "avx512dq", "avx512vl"]],
    ["avx512vnni", ["avx512_vnni"]],
    ["avx512bf16", ["avx512vbmi", "avx512_bf16"]],
    ["amx", ["amx_tile", "amx_int8", "amx_bf16"]],
  ],
  arm64: [
    ["neon", []],
    ["neondot", ["asimddp"]],
  ],
};
/** The others call functions of those below them, down to this one. */
const COMMON = "avx512";

/** The first processor's block of /proc/cpuinfo, which has the flags of all. */
function firstProcessor() {
  const buffer = Buffer.alloc(16_384);
  const file = openSync("/proc/cpuinfo", "r");
  try {
    return buffer.toString("latin1", 0, readSync(file, buffer));
  } finally {
    closeSync(file);
  }
}

/**
 * @param {string} arch Node's name
 * @param {string} cpuinfo text of /proc/cpuinfo, as far as the first line of flags
 * @returns {string[] | undefined} the best instruction set of the machine, and those whose functions it calls: the
 * portable kernels where it has no other; undefined: the text does not say
 */
export function variantsFor(arch, cpuinfo) {
  const line = /^(?:flags|Features)\s*:(.*)$/m.exec(cpuinfo);
  const ladder = LADDERS[arch];
  if (line === null || ladder === undefined) return undefined;
  const flags = new Set(line[1].trim().split(/\s+/));
  const missing = ladder.findIndex(([, needed]) => !needed.every((flag) => flags.has(flag)));
  const names = ["portable", ...(missing < 0 ? ladder : ladder.slice(0, missing)).map(([name]) => name)];
  const common = names.indexOf(COMMON);
  return names.slice(common < 0 ? -1 : common);
}

/** @returns {string[] | undefined} undefined: all, since the machine does not say, or MILLRACE_ISA asks for one */
export function hostVariants() {
  if (process.platform !== "linux" || process.env.MILLRACE_ISA) return undefined;
  try {
    return variantsFor(process.arch, firstProcessor());
  } catch {
    return undefined;
  }
}
