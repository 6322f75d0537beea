/** Looks for the GPU that a machine's engines need, before anything is pulled. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../core/errors.js";
import type { FleetConfig } from "../fleet/config/schema.js";

const NEED_NVIDIA: readonly FleetConfig["models"][number]["engine"][] = ["vllm", "sglang"];
/** In the PCI list of vendors. */
const NVIDIA = "0x10de";

/** Throws gpu_missing where an engine of this machine needs a GPU and the PCI bus has none: waiting would not bring one. */
export function assertGpu(config: FleetConfig, devices = "/sys/bus/pci/devices"): void {
  const model = config.models.find(({ engine, attach }) => NEED_NVIDIA.includes(engine) && attach.length === 0);
  if (model === undefined || vendorsIn(devices).includes(NVIDIA)) return;
  throw new MillraceError("gpu_missing", `expected an NVIDIA GPU on the PCI bus for ${model.engine}, got none`, {
    hint: "attach a GPU to the machine and restart millrace, or serve a preset for CPUs",
  });
}

/** A machine without a PCI bus has no such folder. */
function vendorsIn(devices: string): string[] {
  try {
    return readdirSync(devices).map((name) => readFileSync(join(devices, name, "vendor"), "utf8").trim());
  } catch {
    return [];
  }
}
