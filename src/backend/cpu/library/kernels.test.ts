/**
 * Conformance: every operation on every instruction set against the reference device, and the rules that any device
 * obeys.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { OP_CASES } from "../../../../test/reference/cases.js";
import {
  Bench,
  expectClose,
  expectSameBits,
  ISAS,
  integersBelow,
  library,
  normals,
  once,
  weightBytes,
  withBench,
} from "../../../../test/reference/compare.js";
import type { OpCase, Result } from "../../../../test/reference/op-case.js";
import { BLOCK_LAYOUT, dequantizeRow, f16ToNumber, rowByteLength, WEIGHT_TYPES } from "../../../formats/dequantize.js";
import { type BufferHandle, NO_BUFFER } from "../../handles.js";
import { OP_NAMES, signatureOf } from "../../ops.js";
import { requireOurOperations } from "./load.js";

function read(bench: Bench, result: Result): Float32Array {
  if (result.as === "f16") return Float32Array.from(bench.readU16(result.handle), f16ToNumber);
  if (result.as === "bytes") return Float32Array.from(new Uint8Array(bench.device.view(result.handle)));
  return result.as === "i32" ? Float32Array.from(bench.readI32(result.handle)) : bench.readF32(result.handle);
}

/** Runs a case and returns the values of its results, in the case's order. */
function runCase(bench: Bench, opCase: OpCase): readonly { readonly result: Result; readonly values: Float32Array }[] {
  return withBench(bench, () => {
    const results = opCase.record(bench);
    bench.run();
    return results.map((result) => ({ result, values: read(bench, result) }));
  });
}

it("names the operations in opcode order", () => {
  expect(library.opSignatures()).toEqual(OP_NAMES.map(signatureOf));
});

it("refuses an addon whose operations differ from the table", () => {
  const ours = library.opSignatures();
  const refusalOf = (opSignatures?: () => readonly string[]) => {
    try {
      requireOurOperations(opSignatures === undefined ? {} : { opSignatures });
    } catch (error) {
      return String(error);
    }
  };
  expect(refusalOf(() => ours)).toBeUndefined();
  expect(refusalOf()).toContain("operation 0 is embed(out, weight, ids, numRows, scale), got none");
  expect(refusalOf(() => ours.slice(0, -1))).toContain(`operation ${ours.length - 1} is ${ours.at(-1)}, got none`);
  expect(refusalOf(() => [...ours, "scale(x)"])).toContain(`operation ${ours.length} is none, got scale(x)`);
  const swapped = ours.map((signature) => signature.replace("add(out, x,", "add(x, out,"));
  expect(refusalOf(() => swapped)).toContain(
    "operation 5 is add(out, x, numRows, width), got add(x, out, numRows, width)",
  );
});

const CASES = OP_NAMES.flatMap((name) => OP_CASES[name]).map((opCase) => ({
  opCase,
  wanted: once(() => runCase(Bench.reference(), opCase)),
}));

for (const { isa, isMissing } of ISAS) {
  describe.skipIf(isMissing)(`${isa} equals the reference`, () => {
    for (const { opCase, wanted } of CASES) {
      it(`${opCase.op}: ${opCase.label}`, () => {
        const got = runCase(Bench.native(isa, 2), opCase);
        wanted().forEach(({ result, values }, i) => {
          const tolerance = "tolerance" in result ? result.tolerance : { relative: 0, absolute: 0 };
          expectClose(got[i]!.values, values, tolerance);
        });
      });
    }
  });

  describe.skipIf(isMissing)(`${isa} dequantises arbitrary bytes to the reference's exact bits`, () => {
    for (const type of WEIGHT_TYPES) {
      it(type, () => {
        // Random bits give scales of every size, including subnormal, infinite and NaN ones.
        const cols = 128 * BLOCK_LAYOUT[type].numValues;
        const bytes = Uint8Array.from(integersBelow(256, rowByteLength(type, cols)!, 30));
        const got = withBench(Bench.native(isa), (bench) => {
          const out = bench.unwritten(cols);
          const weight = bench.weight(type, 1, cols, bytes);
          bench.program.record("embed", { out, weight, ids: bench.i32([0]), numRows: 1, scale: 1 });
          bench.run();
          return bench.readF32(out);
        });
        expectClose(got, dequantizeRow(type, bytes, cols), { relative: 0, absolute: 0 });
      });
    }
  });

  describe.skipIf(isMissing)(`${isa} gives the same bits on any number of threads`, () => {
    for (const opCase of OP_NAMES.flatMap((name) => OP_CASES[name].slice(-1))) {
      it(opCase.op, () => {
        const [one, ...others] = [1, 2, 3].map((numThreads) => runCase(Bench.native(isa, numThreads), opCase));
        for (const other of others) {
          other.forEach(({ values }, i) => {
            expectSameBits(values, one![i]!.values);
          });
        }
      });
    }
  });
}

const DEVICES = [
  { label: "reference", open: () => Bench.reference() },
  { label: "native", open: () => Bench.native("portable", 2) },
];

describe.each(DEVICES)("a $label device", ({ open }) => {
  const refusal = expect.objectContaining({ code: "kernels_argument" });

  it("allocates zeroed memory and views that alias it", () => {
    withBench(open(), (bench) => {
      const handle = bench.device.allocate(4096);
      const view = new Uint8Array(bench.device.view(handle));
      expect(view.byteLength).toBe(4096);
      expect(view.every((byte) => byte === 0)).toBe(true);
      view[5] = 7;
      expect(new Uint8Array(bench.device.view(handle))[5]).toBe(7);
    });
  });

  it("reads and writes parts of a buffer and refuses ranges outside it", () => {
    withBench(open(), (bench) => {
      const handle = bench.device.allocate(100);
      bench.device.write(
        handle,
        90,
        Uint8Array.from({ length: 10 }, (_, i) => i + 1),
      );
      const bytes = new Uint8Array(12);
      bench.device.read(handle, 88, bytes);
      expect([...bytes]).toEqual([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
      bench.device.read(handle, 100, new Uint8Array(0));
      for (const offset of [89, -1, 0.5, Number.NaN, 2 ** 60]) {
        expect(() => bench.device.read(handle, offset, bytes)).toThrow(refusal);
        expect(() => bench.device.write(handle, offset, bytes)).toThrow(refusal);
      }
    });
  });

  it("detaches views when a buffer is released and when the device is destroyed", () => {
    const bench = open();
    const [first, second] = [bench.device.allocate(64), bench.device.allocate(64)];
    const [firstView, secondView] = [bench.device.view(first), bench.device.view(second)];
    bench.device.release(first);
    expect(firstView.byteLength).toBe(0);
    expect(secondView.byteLength).toBe(64);
    expect(() => bench.device.view(first)).toThrow(refusal);
    bench.device.destroy();
    expect(secondView.byteLength).toBe(0);
  });

  it("refuses released handles, and every call after it is destroyed", () => {
    const bench = open();
    const { device } = bench;
    const buffer = bench.f32([1]);
    device.release(buffer);
    expect(() => device.release(buffer)).toThrow(refusal);
    expect(() => device.view(NO_BUFFER)).toThrow(refusal);
    expect(() => device.releaseWeight(99 as never)).toThrow(refusal);
    expect(() => device.unmapFile(99 as never)).toThrow(refusal);
    expect(() => device.createWeight(buffer, 0, "F32", 1, 1)).toThrow(refusal);
    device.destroy();
    expect(() => device.allocate(64)).toThrow(refusal);
    expect(() => device.submit(new Float64Array(0), 0)).toThrow(refusal);
  });

  it("reads a weight from the middle of a mapped file", () => {
    const folder = mkdtempSync(join(tmpdir(), "millrace-kernels-"));
    try {
      const path = join(folder, "weights.bin");
      writeFileSync(path, Buffer.concat([Buffer.alloc(64, 0xff), weightBytes("Q8_0", 2, 32, 1)]));
      const values = withBench(open(), (bench) => {
        const file = bench.device.mapFile(path);
        const weight = bench.device.createWeight(file, 64, "Q8_0", 2, 32);
        const out = bench.unwritten(64);
        bench.program.record("embed", { out, weight, ids: bench.i32([1, 0]), numRows: 2, scale: 1 });
        bench.run();
        bench.device.releaseWeight(weight);
        bench.device.unmapFile(file);
        return bench.readF32(out);
      });
      const wanted = withBench(Bench.reference(), (bench) => {
        const out = bench.unwritten(64);
        const weight = bench.weight("Q8_0", 2, 32, weightBytes("Q8_0", 2, 32, 1));
        bench.program.record("embed", { out, weight, ids: bench.i32([1, 0]), numRows: 2, scale: 1 });
        bench.run();
        return bench.readF32(out);
      });
      expectClose(values, wanted, { relative: 1e-6, absolute: 0 });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("refuses a weight whose source was released", () => {
    withBench(open(), (bench) => {
      const source = bench.f32(normals(4, 1));
      const weight = bench.device.createWeight(source, 0, "F32", 2, 2);
      const record = (): void =>
        bench.program.record("embed", { out: bench.unwritten(2), weight, ids: bench.i32([1]), numRows: 1, scale: 1 });
      record();
      bench.run();
      bench.device.release(source);
      record();
      expect(() => bench.run()).toThrow(refusal);
    });
  });

  it("never mistakes a released handle for a new allocation", () => {
    withBench(open(), ({ device }) => {
      const old = Array.from({ length: 10 }, () => device.allocate(64));
      for (const handle of old) device.release(handle);
      const young = old.map(() => device.allocate(64));
      for (const handle of old) expect(() => device.view(handle)).toThrow(refusal);
      for (const handle of young) expect(device.view(handle).byteLength).toBe(64);
    });
  });

  it("refuses a file it cannot read", () => {
    withBench(open(), ({ device }) => {
      const unreadable = expect.objectContaining({ code: "file_unreadable" });
      expect(() => device.mapFile(join(tmpdir(), "millrace-no-such-file"))).toThrow(unreadable);
      expect(() => device.mapFile(tmpdir())).toThrow(unreadable);
    });
  });

  it("refuses weights that do not fit their source", () => {
    withBench(open(), ({ device }) => {
      const source = device.allocate(144);
      for (const [byteOffset, type, rows, cols] of [
        [0, "F32", 37, 1],
        [1, "Q4_K", 1, 256],
        [0, "Q4_K", 1, 255],
        [0, "Q4_K", 2, 256],
        [-1, "F32", 1, 1],
        [0.5, "F32", 1, 1],
        [0, "F32", -1, 1],
        [0, "F32", 1, 0.5],
        [0, "F32", Number.NaN, 1],
        [0, "F32", 2 ** 33, 2 ** 33],
        [0, "Q9_9" as "F32", 1, 1],
      ] as const) {
        expect(() => device.createWeight(source, byteOffset, type, rows, cols)).toThrow(refusal);
      }
      device.createWeight(source, 0, "Q4_K", 1, 256);
    });
  });

  it("refuses impossible allocations", () => {
    withBench(open(), ({ device }) => {
      for (const byteLength of [-1, 0.5, Number.NaN]) expect(() => device.allocate(byteLength)).toThrow(refusal);
      expect(() => device.allocate(2 ** 52)).toThrow(expect.objectContaining({ code: "out_of_memory" }));
    });
  });

  it("runs dependent operations in order", () => {
    const width = 1000;
    const [x, y] = [normals(width, 1), normals(width, 2)];
    withBench(open(), (bench) => {
      const [a, b]: BufferHandle[] = [bench.f32(x), bench.f32(y)];
      for (let i = 0; i < 20; i++) {
        const [out, x] = i % 2 === 0 ? [a!, b!] : [b!, a!];
        bench.program.record("add", { out, x, numRows: 1, width });
      }
      bench.run();
      for (let i = 0; i < 20; i++) {
        const [to, from] = i % 2 === 0 ? [x, y] : [y, x];
        to.forEach((value, at) => {
          to[at] = value + from[at]!;
        });
      }
      expectSameBits(bench.readF32(a!), x);
      expectSameBits(bench.readF32(b!), y);
    });
  });
});

it("finishes concurrent operations before the operations that depend on them", () => {
  const [m, n, k] = [5, 200, 300];
  const results = [Bench.reference(), ...[1, 2, 3].map((numThreads) => Bench.native("portable", numThreads))].map(
    (one) =>
      withBench(one, (bench) => {
        const x = bench.f32(normals(m * k, 1));
        const outs = [2, 3, 4].map((seed, i) => {
          const out = bench.unwritten(m * n);
          const weight = bench.weight("F32", n, k, weightBytes("F32", n, k, seed));
          bench.program.record("linear", { out, x, weight, numRows: m }, { concurrent: i < 2 });
          return out;
        });
        for (const x of outs.slice(1)) bench.program.record("add", { out: outs[0]!, x, numRows: m, width: n });
        bench.run();
        return bench.readF32(outs[0]!);
      }),
  );
  const [wanted, one, two, three] = results;
  expectClose(one!, wanted!, { relative: 1e-6, absolute: 1e-3 });
  expectSameBits(two!, one!);
  expectSameBits(three!, one!);
});

it("refuses invalid device options", () => {
  for (const numThreads of [0, -1, 1.5, Number.NaN, 1e9]) {
    expect(() => library.createDevice({ numThreads })).toThrow(expect.objectContaining({ code: "kernels_argument" }));
  }
  expect(() => library.createDevice({ numThreads: 1, isa: "sse" as "avx2" })).toThrow(
    expect.objectContaining({ code: "kernels_isa" }),
  );
});
