/** The instruction sets that a first start compiles the kernels for. */
import { expect, test } from "vitest";
import { loadKernels } from "../../src/backend/cpu/library/load.js";

const { hostVariants, variantsFor } = (await import("../../scripts/setup/host-variants.js" as string)) as {
  hostVariants(): readonly string[] | undefined;
  variantsFor(arch: string, cpuinfo: string): readonly string[] | undefined;
};

const AVX2 = "fpu avx f16c fma avx2";
const AVX512 = `${AVX2} avx512f avx512dq avx512bw avx512vl`;

test.each([
  ["x64", "fpu sse2", ["portable"]],
  ["x64", "fpu avx avx2 f16c", ["portable"]],
  ["x64", AVX2, ["avx2"]],
  ["x64", AVX512, ["avx512"]],
  ["x64", `${AVX512} avx512_vnni`, ["avx512", "avx512vnni"]],
  ["x64", `${AVX512} avx512_vnni avx512_bf16`, ["avx512", "avx512vnni"]],
  ["x64", `${AVX512} avx512vbmi avx512_bf16 avx512_vnni`, ["avx512", "avx512vnni", "avx512bf16"]],
  ["arm64", "fp asimd", ["neon"]],
  ["arm64", "fp asimd asimddp", ["neondot"]],
])("%s with %s", (arch, flags, expected) => {
  const name = arch === "x64" ? "flags\t\t" : "Features\t";
  expect(variantsFor(arch, `processor\t: 0\n${name}: ${flags}\nbugs\t\t: none\n`)).toEqual(expected);
});

test("a text without flags, or of another kind of machine, does not say", () => {
  expect(variantsFor("x64", "processor\t: 0\n")).toBeUndefined();
  expect(variantsFor("riscv64", "flags\t: avx2\n")).toBeUndefined();
});

test.skipIf(process.platform !== "linux" || process.env.MILLRACE_ISA !== undefined)(
  "here they have the one that the kernels choose",
  () => {
    const device = loadKernels().createDevice({ numThreads: 1 });
    try {
      expect(hostVariants()).toContain(device.isa);
    } finally {
      device.destroy();
    }
  },
);
