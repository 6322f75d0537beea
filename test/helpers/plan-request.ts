/** A request to the planner with usual traffic, from which tests change what they are about. */
import { GPU_HOUR } from "../../src/plan/data/prices.js";
import { parseHardware } from "../../src/plan/hardware.js";
import { knownModel } from "../../src/plan/known-model.js";
import type { PlanRequest } from "../../src/plan/request.js";

export function planRequest(model: string, hardware: string, more: Partial<PlanRequest> = {}): PlanRequest {
  const machine = parseHardware(hardware);
  return {
    model: knownModel(model),
    machine,
    inputTokens: 1024,
    outputTokens: 512,
    prefixShare: 0,
    slo: {},
    objective: "throughput",
    isSimpleTask: false,
    smallestRecovery: 98,
    allowsPublished: true,
    load: { concurrency: 16 },
    price: GPU_HOUR[machine.device.id] ?? { usd: 1, date: "2026-05", source: "test" },
    ...more,
  };
}
