/** The list price of a machine's hour, if the user gives none. */
import { defaultNumThreads } from "../../core/cpu.js";
import type { Machine } from "../../plan/data/device.js";
import { CPU_CORE_HOUR, type DatedPrice, GPU_HOUR } from "../../plan/data/prices.js";
import { gpuMachine, gpuNames } from "./detect-machine.js";

/** The price of one GPU, or of all cores. */
export function listPrice(machine: Machine): DatedPrice {
  if (machine.kind === "gpu") return GPU_HOUR[machine.device.id]!;
  return coresPrice(machine.device.numCores * machine.count);
}

const coresPrice = (numCores: number): DatedPrice => ({ ...CPU_CORE_HOUR, usd: CPU_CORE_HOUR.usd * numCores });

/**
 * The price of this complete machine. Throws invalid_option for GPUs that the table lacks.
 * @param usesGpus whether its GPUs, if any, serve
 */
export async function priceOfThisMachine(usesGpus: boolean): Promise<DatedPrice> {
  const names = usesGpus ? await gpuNames() : [];
  if (names.length === 0) return coresPrice(defaultNumThreads());
  const price = listPrice(gpuMachine(names, "give your price in dollars as --price-per-hour"));
  return { ...price, usd: price.usd * names.length };
}

/** @param usd the user's price @param flag its flag */
export const givenPrice = (usd: number, flag: string): DatedPrice => ({
  usd,
  date: new Date().toISOString().slice(0, 7),
  source: flag,
});
