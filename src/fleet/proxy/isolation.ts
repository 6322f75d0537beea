/**
 * How an engine keeps the tenants' cached prefixes apart on each path. Paths on which it cannot are refused, unless
 * tenants may share or nothing is cached.
 */
import { MillraceError } from "../../core/errors.js";
import { PROMPT_PATHS, routeOf } from "../../gateway/api/routes.js";
import { ADAPTERS } from "../adapters/index.js";
import type { EngineName } from "../upstream/engine.js";
import type { ModelSpec } from "../upstream/model-spec.js";

/** How the operator lets tenants share, in a fleet from a file and in one from flags. */
export const WAY_TO_SHARE =
  "to let tenants share, the operator sets isolate-api-keys: false in the fleet's file, or --no-isolate-api-keys";

/** "not needed": the model reads no prompt on this path. */
type Isolation = "header" | "cache_salt" | "not needed" | "refused";

/** How a request to this engine and path names its cache scope. */
export function isolationAt(engine: EngineName, path: string): Isolation {
  const { cacheScope } = ADAPTERS[engine];
  if (cacheScope === "header") return "header";
  if (cacheScope.includes(path)) return "cache_salt";
  return routeOf(path)?.runsPrompt === false ? "not needed" : "refused";
}

/** Throws if one tenant's request could use another tenant's cached prefixes in this engine on this path. */
export function assertApart(engine: EngineName, path: string): void {
  if (isolationAt(engine, path) !== "refused") return;
  const { isolated } = promptPathsOf(engine);
  const there = isolated.length === 0 ? "there is no such path" : `such paths are ${isolated.join(", ")}`;
  throw new MillraceError(
    "isolation_unsupported",
    `expected a path where ${engine} keeps tenants' cached prefixes apart, got ${path.slice(0, 80)}`,
    { hint: `${there}; ${WAY_TO_SHARE}` },
  );
}

/** The paths that run prompts: paths that keep tenants apart, and paths that are refused. */
export function promptPathsOf(engine: EngineName): {
  readonly isolated: readonly string[];
  readonly refused: readonly string[];
} {
  const { cacheScope } = ADAPTERS[engine];
  const paths = [...new Set([...PROMPT_PATHS, ...(cacheScope === "header" ? [] : cacheScope)])];
  const isRefused = (path: string) => isolationAt(engine, path) === "refused";
  return { isolated: paths.filter((path) => !isRefused(path)), refused: paths.filter(isRefused) };
}

/**
 * Whether instances of a model may keep prefixes between requests. True for attached servers, since their settings are
 * unknown.
 */
export function cachesPrefixes({ engine, options, attach = [] }: Pick<ModelSpec, "engine" | "options" | "attach">) {
  const isOff = options.enablePrefixCaching === false && ADAPTERS[engine].turnsCacheOff === true;
  return !isOff || attach.length > 0;
}

/** Whether instances of a model draft from other tenants' prompts and answers. */
export function sharesDrafts({ engine, options: { speculativeConfig } }: Pick<ModelSpec, "engine" | "options">) {
  return speculativeConfig !== undefined && ADAPTERS[engine].sharesDrafts?.(speculativeConfig) === true;
}
