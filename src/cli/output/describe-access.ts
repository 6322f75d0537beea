/** What a start says of who may use the server, and what its users share. */
import { isLoopback } from "../../core/loopback.js";

const FLAG = "--no-isolate-api-keys";
/** Tenants are a fleet's, which is started by flags or by a file. */
const WAYS_TO_SHARE = { keys: FLAG, tenants: `${FLAG}, or isolate-api-keys: false in the fleet's file,` } as const;

/** @returns undefined where there is only one, who has nobody to share with */
export function describeSharing(
  what: "keys" | "tenants",
  names: readonly string[],
  isApart: boolean,
): string | undefined {
  const count = new Set(names).size;
  if (count < 2) return undefined;
  return isApart
    ? `each of ${count} ${what} has cached prefixes of its own (${WAYS_TO_SHARE[what]} lets them share)`
    : `${count} ${what} share cached prefixes, so each can find out what was asked before`;
}

/** @returns undefined where nobody is let in unasked who is not on this machine */
export function warnOfOpenDoor(host: string, hasKeys: boolean, wayOut: string): string | undefined {
  if (hasKeys || isLoopback(host)) return undefined;
  return `warning: anybody who can reach ${host} can use this server; ${wayOut}`;
}
