/** Where tenants that share an engine are kept apart, and how. Paths where that cannot be done are refused, unless tenants may share or there is no cache. */
import { MillraceError } from "../../core/errors.js";
import { ADAPTERS } from "../adapters/index.js";
import type { EngineName } from "../upstream/engine.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import { PROMPT_PATHS, routeOf } from "./routes.js";

/** Of fleets that a file describes, and of those that flags do. */
export const WAY_TO_SHARE =
  "where tenants may share, the operator sets isolate-api-keys: false in the fleet's file, or --no-isolate-api-keys";

/** "not needed": no prompt runs through the model there. */
type Isolation = "header" | "cache_salt" | "not needed" | "refused";

/** How an engine is told whose cached prefixes a request may use. */
export function isolationAt(engine: EngineName, path: string): Isolation {
  const { cacheScope } = ADAPTERS[engine];
  if (cacheScope === "header") return "header";
  if (cacheScope.includes(path)) return "cache_salt";
  return routeOf(path)?.runsPrompt === false ? "not needed" : "refused";
}

/** Throws where an engine would let a tenant's request use what another's has left. */
export function assertApart(engine: EngineName, path: string): void {
  if (isolationAt(engine, path) !== "refused") return;
  const { isolated } = promptPathsOf(engine);
  const there = isolated.length === 0 ? "there is none" : `these are ${isolated.join(", ")}`;
  throw new MillraceError(
    "isolation_unsupported",
    `expected a path where ${engine} keeps tenants' cached prefixes apart, got ${path.slice(0, 80)}`,
    { hint: `${there}; ${WAY_TO_SHARE}` },
  );
}

/** The paths that run prompts, by whether tenants can be kept apart there. */
export function promptPathsOf(engine: EngineName): {
  readonly isolated: readonly string[];
  readonly refused: readonly string[];
} {
  const { cacheScope } = ADAPTERS[engine];
  const paths = [...new Set([...PROMPT_PATHS, ...(cacheScope === "header" ? [] : cacheScope)])];
  const isRefused = (path: string) => isolationAt(engine, path) === "refused";
  return { isolated: paths.filter((path) => !isRefused(path)), refused: paths.filter(isRefused) };
}

/** Whether instances of a model may keep prefixes from one request to the next. Of servers that run already nobody can tell. */
export function cachesPrefixes({ engine, options, attach = [] }: Pick<ModelSpec, "engine" | "options" | "attach">) {
  const isOff = options.enablePrefixCaching === false && ADAPTERS[engine].turnsCacheOff === true;
  return !isOff || attach.length > 0;
}

/** Whether instances of a model draft from what other tenants asked and got. */
export function sharesDrafts({ engine, options: { speculativeConfig } }: Pick<ModelSpec, "engine" | "options">) {
  return speculativeConfig !== undefined && ADAPTERS[engine].sharesDrafts?.(speculativeConfig) === true;
}
