/** The default folder of a gateway's database and its clients' files, used without `data-folder`. */
import { homedir } from "node:os";
import { join } from "node:path";

/** $XDG_STATE_HOME/millrace/gateway-PORT, so that two gateways of one user have different databases. */
export function defaultDataFolder(port: number): string {
  const { XDG_STATE_HOME: state } = process.env;
  const base = state === undefined || state === "" ? join(homedir(), ".local/state") : state;
  return join(base, "millrace", `gateway-${port}`);
}
