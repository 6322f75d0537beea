/**
 * `millrace plan costs`: the load from which an own machine costs less than an API, and the costs of three business
 * sizes.
 */

import { Command } from "commander";
import { formatUsd } from "../../core/quantities.js";
import { breakEven, PEAK_FACTOR, SCALES, scaleCost } from "../../plan/cost.js";
import { type TokenScale, tokenScales } from "../../plan/cost-scales.js";
import { DISTILLATION } from "../../plan/data/constants.js";
import { API_PRICES, type ApiPrice } from "../../plan/data/prices.js";
import { capacityOf } from "../../plan/load-curve.js";
import type { Configuration, PlanRequest } from "../../plan/request.js";
import { apiPrice } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import type { PlanFlags } from "../plan/plan-options.js";

interface CostFlags extends PlanFlags {
  readonly api?: ApiPrice;
}

export function planCostsCommand(): Command {
  return new Command("costs")
    .description(
      "Compare self-hosting with APIs: break-even, and three sizes of business. Takes the options of millrace plan.",
    )
    .option("--api <in:out>", "an API's dollars per million tokens, beside the APIs of the list", apiPrice("--api"))
    .action(async (_: unknown, command: Command) => runCosts(command.optsWithGlobals<CostFlags>()));
}

async function runCosts(flags: CostFlags): Promise<void> {
  const [{ requestOf }, { makePlan }, { refuseUnfit }] = await Promise.all([
    import("../plan/plan-request.js"),
    import("../../plan/plan.js"),
    import("../plan/refusals.js"),
  ]);
  // The costs assume machines with this load all day.
  const { request } = await requestOf({ ...flags, objective: "cost" });
  const plan = makePlan(request);
  refuseUnfit(plan);
  const [{ loadText, shapeText }, { machineLabel }] = await Promise.all([
    import("../plan/plan-text.js"),
    import("../../plan/hardware.js"),
  ]);
  const best = plan.configurations[0]!;
  const costs = costsOf(request, best, flags.api);
  if (flags.json === true) {
    process.stdout.write(`${jsonText(costs, 2)}\n`);
    return;
  }
  const shape = shapeText(best, request.machine.kind === "cpu");
  const lines = [
    `${request.model.name} on ${machineLabel(request.machine)}: ${best.quantization.label}, ${shape}`,
    loadText(request),
    `${formatUsd(best.cost.usdPerHour)} an hour, ${formatUsd(best.cost.usdPerMillionOutput)} a million output tokens at this load around the clock (prices of ${request.price.date}: ${request.price.source})`,
    ...breakEvenLines(costs),
    ...scaleLines(costs),
    ...tokenScaleLines(costs),
    ...spendingLines(costs),
    "",
    "Machines are paid for whether they work or not; people who run them are not in these figures.",
  ];
  process.stdout.write(`${lines.join("\n")}\n`);
}

type Costs = ReturnType<typeof costsOf>;

const breakEvenLines = (costs: Costs): readonly string[] => [
  "",
  "Break-even: above so many output tokens a month the machine costs less",
  formatTable([
    ["API", "date", "$/M out with its input", "M tokens a month", "use of the machine"],
    ...costs.breakEven.map(breakEvenRow),
  ]),
];

const scaleLines = (costs: Costs): readonly string[] => [
  "",
  `Scale: the busiest hour has ${PEAK_FACTOR} times the mean's requests; API: ${costs.comparedWith}`,
  formatTable([
    ["", "requests a day", "M tokens out a month", "machines", "self-hosted a month", "API a month"],
    ...costs.scales.map((each) => [
      each.name,
      each.requestsPerDay.toLocaleString("en-US"),
      each.millionOutputPerMonth.toFixed(0),
      String(each.numMachines),
      formatUsd(each.usdPerMonth),
      formatUsd(each.apiUsdPerMonth),
    ]),
  ]),
];

const tokenScaleLines = (costs: Costs): readonly string[] => [
  "",
  `Tokens a day, prompts and answers: the busiest hour has ${PEAK_FACTOR} times the mean's; vanilla: 16 bits, one instance, no drafts, within the same targets`,
  formatTable([
    ["tokens a day", "machines", "a month", "vanilla", "saved", "$ per 1,000 requests", "kW", "distillation pays back"],
    ...costs.tokenScales.map(tokenRow),
  ]),
];

const spendingLines = (costs: Costs): readonly string[] => [
  "",
  "What a month's money is spent on",
  formatTable([
    [
      "tokens a day",
      "arithmetic",
      "bandwidth",
      "links and host",
      "capacity: holding weights",
      "idle: waiting for the peak",
    ],
    ...costs.tokenScales.map(({ tokensPerDay, split }) => [
      tokensPerDay.toLocaleString("en-US"),
      ...[split.arithmetic, split.bandwidth, split.linksAndHost, split.capacity, split.idle].map(percent),
    ]),
  ]),
];

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

function tokenRow(scale: TokenScale): string[] {
  const { tokensPerDay, numMachines, usdPerMonth, vanillaUsdPerMonth: vanilla, distillation } = scale;
  return [
    tokensPerDay.toLocaleString("en-US"),
    String(numMachines),
    formatUsd(usdPerMonth),
    vanilla === undefined ? (scale.whyNoVanilla ?? "–") : formatUsd(vanilla),
    vanilla === undefined ? "–" : `${formatUsd(vanilla - usdPerMonth)} (${percent(1 - usdPerMonth / vanilla)})`,
    formatUsd(scale.usdPerThousandRequests),
    scale.kilowatts.toFixed(1),
    distillation === undefined ? "never" : paidBack(distillation),
  ];
}

function paidBack({ months, model, isWorthIt }: NonNullable<TokenScale["distillation"]>): string {
  const late = isWorthIt ? "" : `, over the ${DISTILLATION.mostMonths.value} that are worth it`;
  return `after ${months.toFixed(1)} months${late} (${model})`;
}

function breakEvenRow({
  api,
  apiUsdPerMillionOutput,
  millionsPerMonth,
  utilization,
}: ReturnType<typeof breakEven>): string[] {
  const never = "never: more than it can do";
  return [
    api.name,
    api.date,
    formatUsd(apiUsdPerMillionOutput),
    millionsPerMonth === undefined ? never : millionsPerMonth.toFixed(0),
    `${(100 * utilization).toFixed(0)} %`,
  ];
}

function costsOf(request: PlanRequest, configuration: Configuration, own: ApiPrice | undefined) {
  const { cost } = configuration;
  const capacity = capacityOf(request, configuration);
  const inputPerOutput = request.inputTokens / request.outputTokens;
  const apis = [...(own === undefined ? [] : [own]), ...API_PRICES];
  const compared = own ?? API_PRICES.find(({ name }) => name.startsWith("hosted")) ?? API_PRICES[0]!;
  return {
    cost,
    breakEven: apis.map((api) => breakEven(api, cost, capacity.outputTokensPerS, inputPerOutput)),
    comparedWith: compared.name,
    tokenScales: tokenScales(request, configuration),
    scales: SCALES.map((scale) =>
      scaleCost(scale, cost, capacity.requestsPerS, request.outputTokens, compared, inputPerOutput),
    ),
  };
}
