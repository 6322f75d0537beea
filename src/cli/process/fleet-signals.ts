/**
 * Signals of a fleet's process, handled from its first moment: process 1 of a container gets no signal without a
 * handler.
 */
import type { Fleet } from "../../fleet/fleet.js";
import { reportError } from "../output/report-error.js";
import { withoutRepeats } from "./stop-signal.js";

/**
 * SIGTERM and SIGINT finish the fleet's running requests and exit with 0. A second signal, or one before the fleet
 * exists, exits at once. SIGHUP reloads once the fleet exists.
 */
export class FleetSignals {
  /** Undefined before the start, and while the fleet drains. */
  #fleet: Pick<Fleet, "drain"> | undefined;
  #isReloadDue = false;
  #reload = (): void => {
    this.#isReloadDue = true;
  };

  /** @param canReload false: SIGHUP ends the process, as for other programs */
  constructor(
    canReload: boolean,
    private readonly own: Pick<NodeJS.Process, "on" | "exit"> = process,
  ) {
    const onSignal = withoutRepeats((name) => this.#stop(name));
    for (const name of ["SIGTERM", "SIGINT"] as const) own.on(name, () => onSignal(name));
    if (canReload) own.on("SIGHUP", () => this.#reload());
  }

  /** @param reload applies the file again; absent without a file */
  fleetIsThere(fleet: Pick<Fleet, "drain">, reload = () => {}): void {
    this.#fleet = fleet;
    this.#reload = reload;
    if (this.#isReloadDue) reload();
  }

  #stop(name: NodeJS.Signals): void {
    const fleet = this.#fleet;
    if (fleet === undefined) {
      this.own.exit(name === "SIGINT" ? 130 : 143);
      return;
    }
    this.#fleet = undefined;
    process.stderr.write("finishing the running requests; repeat to stop at once\n");
    fleet.drain().then(
      () => this.own.exit(0),
      (thrown: unknown) => this.own.exit(reportError(thrown, { json: false })),
    );
  }
}
