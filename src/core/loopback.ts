/** Whether only this machine can connect. */
import { isIPv4 } from "node:net";

/** @param host an address from a configuration; names other than localhost may be anywhere */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}
