/**
 * `millrace plan`: from a model, a machine and traffic to configurations, with predictions, costs, reasons and start
 * arguments.
 */
import { Command } from "commander";
import { assertReplaceable, replaceFile } from "../../core/new-file.js";
import type { Plan, PlanRequest } from "../../plan/request.js";
import { integerIn } from "../flags/option-values.js";
import type { PlanFlags } from "../plan/plan-options.js";
import { addPlanOptions } from "../plan/plan-options.js";
import { refuseMissed, refuseUnfit } from "../plan/refusals.js";
import { planAdviseCommand } from "./plan-advise.js";
import { planCostsCommand } from "./plan-costs.js";

interface PlanCommandFlags extends PlanFlags {
  readonly listModels?: boolean;
  readonly top: number;
  readonly html?: string;
  readonly yaml?: string;
}

export function planCommand(): Command {
  const command = new Command("plan")
    .description(
      "Choose engine, weights, instances and limits for a model, a machine and traffic; predict speed and cost.",
    )
    .option("--list-models", "list the models that --model knows by name, with the engines that run them")
    .option("--top <n>", "configurations in the table", integerIn("--top", 1, 1000), 5)
    .option("--html <file>", "write a page with the Pareto frontier and the roofline")
    .option("--yaml <file>", "write the best configuration as a millrace.yaml");
  return addPlanOptions(command).action(runPlan).addCommand(planCostsCommand()).addCommand(planAdviseCommand());
}

async function runPlan(flags: PlanCommandFlags): Promise<void> {
  if (flags.listModels === true) {
    const { modelList } = await import("../plan/list-models.js");
    process.stdout.write(`${modelList(flags.json === true)}\n`);
    return;
  }
  for (const file of [flags.html, flags.yaml]) if (file !== undefined) assertReplaceable(file);
  const [{ requestOf }, { makePlan, withUnasked }] = await Promise.all([
    import("../plan/plan-request.js"),
    import("../../plan/plan.js"),
  ]);
  const { request, fit } = await requestOf(flags);
  const plan = makePlan(request);
  refuseUnfit(plan);
  const { load } = request;
  if ("requestsPerS" in load && !plan.configurations[0]!.meetsSlo) {
    if (await printFleet(request, load.requestsPerS, flags)) return;
  }
  const told = withUnasked(plan);
  const [{ textOf }, { jsonOf }] = await Promise.all([import("../plan/plan-text.js"), import("../plan/plan-json.js")]);
  process.stdout.write(`${flags.json === true ? jsonOf(told, fit) : textOf(told, fit, flags.top)}\n`);
  await writeFiles(plan, flags);
  refuseMissed(plan, flags.slo?.name ?? "");
}

/**
 * Prints a fleet of several machines. The files are for one host.
 * @returns false if no request meets the targets: more machines do not help
 */
async function printFleet(request: PlanRequest, requestsPerS: number, flags: PlanCommandFlags): Promise<boolean> {
  const [{ planFleet }, { fleetJson, fleetText }] = await Promise.all([
    import("../../plan/fleet-size.js"),
    import("../plan/fleet-text.js"),
  ]);
  const fleet = planFleet(request, requestsPerS);
  if (fleet === undefined) return false;
  process.stdout.write(`${flags.json === true ? fleetJson(fleet) : fleetText(fleet)}\n`);
  const others = fleet.plan.configurations.filter((each) => each !== fleet.best);
  await writeFiles({ ...fleet.plan, configurations: [fleet.best, ...others] }, flags);
  return true;
}

async function writeFiles(plan: Plan, { html, yaml }: PlanCommandFlags): Promise<void> {
  if (html !== undefined) {
    const { pageOf } = await import("../plan/plan-page.js");
    replaceFile(html, pageOf(plan));
    process.stderr.write(`written: ${html}\n`);
  }
  if (yaml !== undefined) {
    const { yamlOf } = await import("../../plan/fleet-yaml.js");
    const best = plan.configurations[0]!;
    replaceFile(yaml, yamlOf(plan, best));
    const before = best.needs.length === 0 ? "" : " once it has what it needs (above)";
    const numHosts = best.pipelineParallel ?? 1;
    const start =
      numHosts === 1
        ? `serve --config ${yaml}`
        : `image render --target kubernetes --preset ${yaml} --nodes ${numHosts} --out FOLDER`;
    process.stderr.write(`written: ${yaml}; to start it${before}: millrace ${start}\n`);
  }
}
