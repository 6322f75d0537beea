import { expect, test } from "vitest";
import { ZEN5 } from "../../plan/test-measured.js";
import { cpuMachine, detectMachine, gpuMachine } from "./detect-machine.js";

test("what is detected: equal GPUs of the table, nothing else", () => {
  const name = "NVIDIA H100 80GB HBM3";
  expect(gpuMachine([name, name])).toMatchObject({ kind: "gpu", count: 2, device: { id: "h100" } });
  expect(() => gpuMachine(["NVIDIA T4"])).toThrow(/one known kind on this machine, got NVIDIA T4/);
  expect(() => gpuMachine([name, "NVIDIA L40S"])).toThrow(/got NVIDIA H100 80GB HBM3, NVIDIA L40S/);
});

test("a CPU with given speeds needs no probes", async () => {
  const machine = await detectMachine({ ignoreGpus: true, gigabytesPerS: 50, gmacsPerS: 400 });
  expect(machine).toMatchObject({ kind: "cpu", device: { bytesPerS: 50e9, flops: { cpu4: 800e9, cpu8: 400e9 } } });
  expect(machine.device.memoryBytes).toBeGreaterThan(0);
});

test("memory nodes are devices of their own, with their share of everything", () => {
  expect(cpuMachine(ZEN5, 1)).toEqual({ kind: "cpu", device: ZEN5, count: 1 });
  const { device, count } = cpuMachine(ZEN5, 2);
  expect({ count, memoryBytes: device.memoryBytes, bytesPerS: device.bytesPerS, cpu4: device.flops.cpu4 }).toEqual({
    count: 2,
    memoryBytes: ZEN5.memoryBytes / 2,
    bytesPerS: ZEN5.bytesPerS / 2,
    cpu4: ZEN5.flops.cpu4! / 2,
  });
});
