/**
 * The kernels' instruction sets that this machine runs. A start in a checkout compiles only these; tests and packages
 * have all of them. Names and requirements are those of native/cpu/runtime/cpu.cc.
 */
import { closeSync, openSync, readSync } from "node:fs";

const AVX2 = ["avx2", "fma", "f16c"];
/** From the least to the best, with the flags in /proc/cpuinfo that each needs beyond the one before. */
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
/** Better sets call functions of those below them, down to this one. */
const COMMON = "avx512";

/** The first processor's block of /proc/cpuinfo, whose flags apply to all. */
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
 * @param {string} cpuinfo text of /proc/cpuinfo, at least up to the first line of flags
 * @returns {string[] | undefined} the best instruction set of the machine, and those whose functions it calls: the
 *   portable kernels if there is no other; undefined: the text has no flags
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

/**
 * @returns {string[] | undefined} undefined: all, because the machine's flags are unknown, or MILLRACE_ISA asks for one
 */
export function hostVariants() {
  if (process.platform !== "linux" || process.env.MILLRACE_ISA) return undefined;
  try {
    return variantsFor(process.arch, firstProcessor());
  } catch {
    return undefined;
  }
}
