/**
 * A configuration as it is started: the fleet's adapter renders its command line, so that what a plan shows is what the
 * fleet runs.
 */

import { shellWord } from "../../core/shell-word.js";
import type { LaunchPlan } from "../../fleet/adapters/adapter.js";
import { ADAPTERS } from "../../fleet/adapters/index.js";
import type { Configuration } from "../../plan/request.js";

const PLACE = { host: "127.0.0.1", port: 8001, sparePorts: [8101, 8102], folder: "." } as const;
/** The embedded engine by its command's name, wherever the package lies. */
const PROGRAMS: Readonly<Partial<Record<string, readonly [string, ...string[]]>>> = {
  millrace: ["millrace", "engine"],
};

export interface Launch extends LaunchPlan {
  /** As one types it. */
  readonly text: string;
}

export function launchOf({ engine, options, extraArgs }: Configuration): Launch {
  const adapter = ADAPTERS[engine];
  const plan = adapter.launch(options, PROGRAMS[engine] ?? adapter.program!, PLACE, undefined);
  const command: readonly [string, ...string[]] = [...plan.command, ...extraArgs];
  return { ...plan, command, text: command.map(shellWord).join(" ") };
}
