/** Where a gateway keeps its database and the files of its clients, unless `data-folder` says otherwise. */
import { homedir } from "node:os";
import { join } from "node:path";

/** $XDG_STATE_HOME/millrace/gateway-PORT: two gateways of one user do not share a database. */
export function defaultDataFolder(port: number): string {
  const { XDG_STATE_HOME: state } = process.env;
  const base = state === undefined || state === "" ? join(homedir(), ".local/state") : state;
  return join(base, "millrace", `gateway-${port}`);
}
