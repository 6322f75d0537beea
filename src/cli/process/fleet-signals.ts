/** What a fleet's process does on signals, from its first moment on: as process 1 of a container it would hear none without listening, and SIGHUP would end any other. */
import type { Fleet } from "../../fleet/fleet.js";
import { reportError } from "../output/report-error.js";
import { withoutRepeats } from "./stop-signal.js";

/** SIGTERM and SIGINT finish the running requests of a fleet and exit with 0; a second one, and one before there is a fleet, exits at once. SIGHUP reloads, as soon as there is one. */
export class FleetSignals {
  /** Undefined: there is nothing to finish, or it is being finished. */
  #fleet: Pick<Fleet, "drain"> | undefined;
  #isReloadDue = false;
  #reload = (): void => {
    this.#isReloadDue = true;
  };

  /** @param canReload without, SIGHUP ends the process, as a closed terminal ends others */
  constructor(
    canReload: boolean,
    private readonly own: Pick<NodeJS.Process, "on" | "exit"> = process,
  ) {
    const onSignal = withoutRepeats((name) => this.#stop(name));
    for (const name of ["SIGTERM", "SIGINT"] as const) own.on(name, () => onSignal(name));
    if (canReload) own.on("SIGHUP", () => this.#reload());
  }

  /** @param reload reads the file again, where there is one */
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
    process.stderr.write("finishing the running requests; once more to stop at once\n");
    fleet.drain().then(
      () => this.own.exit(0),
      (thrown: unknown) => this.own.exit(reportError(thrown, { json: false })),
    );
  }
}
