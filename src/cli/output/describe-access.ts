/** Notes at the start about access to the server and sharing between its users. */
import { isLoopback } from "../../core/loopback.js";

const FLAG = "--no-isolate-api-keys";
/** Only fleets have tenants; a fleet starts from flags or a file. */
const WAYS_TO_SHARE = { keys: FLAG, tenants: `${FLAG}, or isolate-api-keys: false in the fleet's file,` } as const;

/** @returns undefined for fewer than two names */
export function describeSharing(
  what: "keys" | "tenants",
  names: readonly string[],
  isApart: boolean,
): string | undefined {
  const count = new Set(names).size;
  if (count < 2) return undefined;
  return isApart
    ? `each of ${count} ${what} has its own cached prefixes (${WAYS_TO_SHARE[what]} shares them)`
    : `${count} ${what} share cached prefixes, so each can find out the others' prompts by timing`;
}

/** @returns undefined if other machines cannot connect or need a key */
export function openAccessWarning(host: string, hasKeys: boolean, wayOut: string): string | undefined {
  if (hasKeys || isLoopback(host)) return undefined;
  return `warning: everyone who can reach ${host} can use this server; ${wayOut}`;
}
