/**
 * Alerts of a cluster: those of any fleet, and one on the autoscaler. The same rules serve a plain Prometheus and the
 * operator's object.
 */
import { type RuleGroup, rule, ruleGroups } from "../observe/rules.js";

/** Cold starts and long prompts are normal in a cluster; users notice ten seconds. */
const TTFT_SECONDS = 10;

/** @param seats number of seats per instance */
export function clusterRules(job: string, seats: number, hasSharedEngines: boolean): RuleGroup[] {
  const of = `{job="${job}"}`;
  const taken = `sum(millrace_fleet:queue_depth${of}) + sum(millrace_fleet:in_flight${of})`;
  const ready = `sum(millrace_fleet:instance_state{job="${job}",state="ready"})`;
  // Gateways that share engines each count all of them.
  const numInstances = hasSharedEngines ? `(${ready} / count(up${of} == 1))` : ready;
  const full = rule(
    "MillraceFull",
    "warning",
    "10m",
    `${taken} > 0.8 * ${seats} * ${numInstances}`,
    "More than 80 % of all seats have been taken for ten minutes: the autoscaler is at its limit, or pods do not start.",
  );
  return [
    ...ruleGroups({ kind: "fleet", job, targets: [], ttftSeconds: TTFT_SECONDS }),
    { name: "millrace-cluster", rules: [full] },
  ];
}
