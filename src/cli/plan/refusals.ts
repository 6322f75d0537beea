/** Errors for impossible plans: models that do not fit, and targets that no configuration reaches. */
import { MillraceError } from "../../core/errors.js";
import { machineLabel } from "../../plan/hardware.js";
import type { Plan } from "../../plan/request.js";

export function refuseUnfit(plan: Plan): void {
  if (plan.configurations.length === 0) throw unfit(plan);
}

export function unfit({ request, refusals, nearest }: Plan): MillraceError {
  const missing = refusals.map(({ what, because }) => (because.startsWith(what) ? because : `${what}: ${because}`));
  const message = `expected ${request.model.name} to fit on ${machineLabel(request.machine)}, got${listed(missing)}`;
  return new MillraceError("plan_does_not_fit", message, { hint: listed(nearest).trimStart() });
}

/** One item after a space; several items one per line, since each is a sentence with its own figures. */
const listed = (items: readonly string[]): string =>
  items.length === 1 ? ` ${items[0]}` : items.map((item) => `\n  ${item}`).join("");

/** The plan is printed before this refusal, to show the possibilities. */
export function refuseMissed({ configurations }: Plan, targets: string): void {
  const best = configurations[0]!;
  if (best.meetsSlo) return;
  throw new MillraceError(
    "plan_targets_missed",
    `expected a configuration within ${targets || "the load"}, got ${best.misses.join("; ")}`,
    {
      hint: "loosen the targets, lower the load, share prefixes, or plan a faster machine; the plan above is ranked by what comes nearest",
    },
  );
}
