/** A fleet on one page: machines, gateways, zones, cost, and the first limit. */
import { formatUsd } from "../../core/quantities.js";
import { FLEET } from "../../plan/data/constants.js";
import type { FleetPlan } from "../../plan/fleet-size.js";
import { machineLabel } from "../../plan/hardware.js";
import { warningsOf } from "../../plan/warnings.js";
import { formatTable, jsonText } from "../output/format.js";
import { launchOf } from "./launch-command.js";
import { loadText, rounded, shapeText, warningLines, wrapped } from "./plan-text.js";

const whole = (value: number): string => Math.round(value).toLocaleString("en-US");
const percent = (share: number): string => `${Math.round(100 * share)} %`;

export function fleetJson({ plan, best, ...figures }: FleetPlan): string {
  const { instances, tensorParallel, quantization } = best;
  const host = { instances, tensorParallel, weights: quantization.id };
  return jsonText({ fleet: { ...figures, host, warnings: warningsOf(plan.request, best) } }, 2);
}

export function fleetText(fleet: FleetPlan): string {
  const { plan, best, capacity, requestsPerS, numNeeded, numHosts, numZones, limits } = fleet;
  const { request } = plan;
  const isCpu = request.machine.kind === "cpu";
  const perZone = numHosts / numZones;
  const machine = machineLabel(request.machine);
  return [
    `${request.model.name}: ${whole(requestsPerS)} requests a second as a fleet of ${machine}`,
    loadText({ ...request, load: { requestsPerS } }),
    "",
    formatTable([
      ["what", "how many", "reckoning"],
      [
        "requests at once",
        whole(fleet.concurrency),
        `${rounded(capacity.ttftMs)} ms to the first token, ${rounded(capacity.tpotMs)} ms a token`,
      ],
      [
        "a host serves",
        `${rounded(capacity.requestsPerS)} requests/s`,
        `${best.quantization.label}, ${shapeText(best, isCpu)}, ${whole(capacity.outputTokensPerS)} tokens/s`,
      ],
      ["hosts needed", whole(numNeeded), `at ${percent(FLEET.mostLoad.value)} of that`],
      [
        "hosts",
        whole(numHosts),
        `${numZones} zones of ${perZone}: ${numZones - 1} of them carry the rate when one is lost`,
      ],
      ["instances", whole(fleet.numInstances), `${best.instances} a host`],
      ...(isCpu ? [] : [["GPUs", whole(fleet.numGpus), `${rounded(fleet.kilowatts)} kW at the limit of the hosts`]]),
      ["gateways", whole(fleet.numGateways), `${whole(requestsPerS * request.outputTokens)} streamed tokens/s`],
      ["an hour", formatUsd(fleet.usdPerHour), `${request.price.source}, ${request.price.date}`],
      ["a month", formatUsd(fleet.usdPerMonth), "730 hours, all hosts always on"],
      ["1,000 requests", formatUsd(fleet.usdPerThousandRequests), "at this rate around the clock"],
    ]),
    "",
    "What fails first (share of what it carries, at this rate)",
    formatTable([["", "used", "then"], ...limits.map(({ what, share, effect }) => [what, percent(share), effect])]),
    "",
    wrapped(
      "Route by prefix within a zone, so that a prompt's cache is on few hosts; a regional load balancer divides clients among gateways. Scale on queued requests, not on GPU use, which is near 100 % at any load.",
      "",
    ),
    ...warningLines(request, best),
    ...best.needs.map((need) => wrapped(`needs ${need}`, "  ")),
    `each host: ${launchOf(best).text}`,
    wrapped(
      "Predicted, not measured: measure one host with millrace bench run before buying the others. One host's plan: the same command with --concurrency.",
      "",
    ),
  ].join("\n");
}
