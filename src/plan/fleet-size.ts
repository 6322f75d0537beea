/**
 * For a rate of requests beyond one machine: the number of machines, gateways and zones, their cost, and the first part
 * to fail.
 */
import { HOURS_PER_MONTH } from "./cost.js";
import { FLEET } from "./data/constants.js";
import { GPU_WATTS } from "./data/prices.js";
import { heldBy } from "./load-curve.js";
import { makePlan } from "./plan.js";
import type { Prediction } from "./predict.js";
import type { Configuration, Plan, PlanRequest } from "./request.js";
import { devicesOf } from "./sharing.js";

/** Concurrent requests at which the search evaluates a full machine. */
const LOADS = [64, 256, 1024, 4096];

interface Limit {
  readonly what: string;
  /** Used share of a machine's capacity, under the requested rate. */
  readonly share: number;
  readonly effect: string;
}

export interface FleetPlan {
  readonly plan: Plan;
  readonly best: Configuration;
  /** Capacity of one machine, within the targets. */
  readonly capacity: Prediction;
  readonly requestsPerS: number;
  /** Machines that carry the rate at `mostLoad`, and with one zone lost. */
  readonly numNeeded: number;
  readonly numHosts: number;
  readonly numZones: number;
  readonly numInstances: number;
  readonly numGpus: number;
  readonly numGateways: number;
  readonly usdPerHour: number;
  readonly usdPerMonth: number;
  readonly usdPerThousandRequests: number;
  readonly kilowatts: number;
  readonly concurrency: number;
  /** Nearest to its limit first. */
  readonly limits: readonly Limit[];
}

/** The configuration of a full machine that serves the most requests within the targets; undefined: none keeps them. */
function fullestMachine(request: PlanRequest): Pick<FleetPlan, "plan" | "best" | "capacity"> | undefined {
  const found = LOADS.flatMap((concurrency) => {
    const plan = makePlan({ ...request, load: { concurrency }, objective: "throughput" });
    return plan.configurations.flatMap((best) => {
      // A host admits at most the number that its command sets.
      const most = Math.min(
        best.sustainableConcurrency,
        best.instances * (best.dataParallel ?? 1) * best.options.maxNumSeqs,
      );
      const capacity = heldBy(plan.request, { ...best, sustainableConcurrency: most });
      return capacity === undefined ? [] : [{ plan, best, capacity }];
    });
  });
  return found.toSorted((a, b) => b.capacity.requestsPerS - a.capacity.requestsPerS)[0];
}

/** @returns undefined where no machine keeps the targets */
export function planFleet(request: PlanRequest, requestsPerS: number): FleetPlan | undefined {
  const found = fullestMachine(request);
  if (found === undefined) return undefined;
  const { best, capacity } = found;
  const { machine, price, outputTokens } = request;
  const { mostLoad, gatewayRequestsPerS, gatewayTokensPerS, hostWatts, startSeconds } = FLEET;
  // Callers know that one machine is too few.
  const numNeeded = Math.max(2, Math.ceil(requestsPerS / (capacity.requestsPerS * mostLoad.value)));
  const numZones = FLEET.zones.value;
  // The remaining zones carry the rate.
  const numHosts = numZones * Math.ceil(numNeeded / (numZones - 1));
  const gpusPerHost = machine.kind === "gpu" ? best.instances * devicesOf(best) : 1;
  const tokensPerS = requestsPerS * outputTokens;
  const perGateway = Math.min(gatewayRequestsPerS.value, gatewayTokensPerS.value / outputTokens) * mostLoad.value;
  const numGateways = numZones * Math.ceil(Math.ceil(requestsPerS / perGateway) / (numZones - 1));
  const usdPerHour = numHosts * price.usd * gpusPerHost;
  const watts = machine.kind === "gpu" ? GPU_WATTS[machine.device.id]! * hostWatts.value : 0;
  const concurrency = (requestsPerS * (capacity.ttftMs + capacity.tpotMs * outputTokens)) / 1000;
  const seats = numHosts * best.instances * best.seats;
  const left = (numZones - 1) / numZones;
  const machines = requestsPerS / (numHosts * capacity.requestsPerS);
  const limits: Limit[] = [
    {
      what: "the machines with one zone lost",
      share: machines / left,
      effect: `requests queue; new instances take ${startSeconds.value / 60} minutes to load weights, so spare machines must be running`,
    },
    {
      what: "the machines",
      share: machines,
      effect: "the time to the first token grows first, then gateways refuse with 429",
    },
    {
      what: "KV memory",
      share: concurrency / seats,
      effect: "sequences wait for a seat or are pre-empted; answers longer than planned do this before the rate does",
    },
    {
      what: "gateways, small requests",
      share: requestsPerS / (numGateways * gatewayRequestsPerS.value),
      effect: "connections wait in the load balancer",
    },
    {
      what: "gateways, streamed tokens",
      share: tokensPerS / (numGateways * gatewayTokensPerS.value),
      effect: "tokens arrive late at all clients of a gateway",
    },
  ];
  return {
    ...found,
    requestsPerS,
    numNeeded,
    numHosts,
    numZones,
    numInstances: numHosts * best.instances,
    numGpus: numHosts * gpusPerHost,
    numGateways,
    usdPerHour,
    usdPerMonth: usdPerHour * HOURS_PER_MONTH,
    usdPerThousandRequests: (usdPerHour / (requestsPerS * 3600)) * 1000,
    kilowatts: (numHosts * gpusPerHost * watts) / 1000,
    concurrency,
    limits: limits.toSorted((a, b) => b.share - a.share),
  };
}
