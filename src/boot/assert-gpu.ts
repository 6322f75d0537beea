/** Checks for the GPU that a machine's models need, before anything is pulled. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../core/errors.js";
import type { FleetConfig } from "../fleet/config/schema.js";

/** NVIDIA and AMD in the PCI list of vendors. */
const GPU_VENDORS: readonly string[] = ["0x10de", "0x1002"];

/**
 * Throws gpu_missing if a model names GPUs and the PCI bus has none, since waiting would not help. Engines without
 * `gpus`
 * may compute on the CPU.
 */
export function assertGpu(config: FleetConfig, devices = "/sys/bus/pci/devices"): void {
  const model = config.models.find(({ gpus = [], attach }) => gpus.length > 0 && attach.length === 0);
  if (model === undefined || vendorsIn(devices).some((vendor) => GPU_VENDORS.includes(vendor))) return;
  throw new MillraceError(
    "gpu_missing",
    `expected a GPU of NVIDIA or AMD on the PCI bus for ${model.name}, which names gpus, got none`,
    { hint: "attach a GPU to the machine and restart millrace, or serve a preset for CPUs" },
  );
}

/** A machine without a PCI bus has no such folder. */
function vendorsIn(devices: string): string[] {
  try {
    return readdirSync(devices).map((name) => readFileSync(join(devices, name, "vendor"), "utf8").trim());
  } catch {
    return [];
  }
}
