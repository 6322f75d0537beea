/**
 * `millrace plan advise`: eight techniques for this model and traffic, and the order in which to try them, without a
 * trial.
 */
import { Command, Option } from "commander";
import { type Advice, BOTTLENECKS, type Bottleneck, type Technique } from "../../plan/advise.js";
import { oneOf } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import type { PlanFlags } from "../plan/plan-options.js";

interface AdviseFlags extends PlanFlags {
  readonly bottleneck?: Bottleneck;
}

export function planAdviseCommand(): Command {
  return new Command("advise")
    .description(
      "Say which techniques to try first for a model and traffic, without a trial. Takes the options of millrace plan.",
    )
    .addOption(
      new Option("--bottleneck <what>", `one of ${BOTTLENECKS.join(", ")} (default: the objective)`).argParser(
        oneOf("--bottleneck", BOTTLENECKS),
      ),
    )
    .action(async (_: unknown, command: Command) => runAdvise(command.optsWithGlobals<AdviseFlags>()));
}

async function runAdvise(flags: AdviseFlags): Promise<void> {
  const [{ requestOf }, { advise }, { makePlan }, { unfit }] = await Promise.all([
    import("../plan/plan-request.js"),
    import("../../plan/advise.js"),
    import("../../plan/plan.js"),
    import("../plan/refusals.js"),
  ]);
  const { request } = await requestOf(flags);
  const bottleneck = flags.bottleneck ?? request.objective;
  const advice = advise(request, bottleneck);
  if (advice === undefined) throw unfit(makePlan(request));
  const [{ loadText }, { machineLabel }] = await Promise.all([
    import("../plan/plan-text.js"),
    import("../../plan/hardware.js"),
  ]);
  const head = [`${request.model.name} on ${machineLabel(request.machine)}`, loadText(request)];
  if (advice.load !== request.load)
    head.push(`more than this machine serves: reckoned for a full one, ${loadText({ ...request, load: advice.load })}`);
  const text =
    flags.json === true
      ? jsonText({ bottleneck, ...advice }, 2)
      : [...head, "", ...linesOf(advice, bottleneck)].join("\n");
  process.stdout.write(`${text}\n`);
}

const change = (share: number | undefined): string =>
  share === undefined
    ? "–"
    : share === Number.POSITIVE_INFINITY
      ? "waits without end"
      : `${share < 1 ? "−" : "+"}${Math.abs(100 * (share - 1)).toFixed(0)} %`;

const rowOf = ({ name, cost, latency, quality, effort, note }: Technique): string[] => [
  name,
  change(cost),
  change(latency),
  effort,
  quality,
  note,
];

function linesOf({ techniques, order, notTo }: Advice, bottleneck: Bottleneck): string[] {
  return [
    formatTable([
      ["technique", "cost of a request", "its time", "effort", "quality", "reckoned for"],
      ...techniques.map(rowOf),
    ]),
    "",
    "1. Measure what you have: speed and cost (millrace bench run), answers (millrace eval).",
    `2. The bottleneck: ${bottleneck}. Another is named with --bottleneck.`,
    `3. Take the first of these that you do not have: ${order.length === 0 ? "none helps" : order.join("; ")}.`,
    "4. Measure again on the same prompts; take it back if answers lose more than 2 %.",
    "5. Go on with the next until the target is met.",
    "",
    "When not to",
    ...notTo.map((line) => `  ${line}`),
    "",
    "Predicted, not measured; quality and effort are the reference guide's.",
  ];
}
