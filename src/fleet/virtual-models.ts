/** The virtual models of a configuration: their names, and the policies that resolve them. */
import type { Policy } from "../gateway/pipeline.js";
import { RoutePolicy } from "../gateway/routes/route-policy.js";
import type { ModelRoute } from "../gateway/routes/route-table.js";
import { TermsPolicy } from "../gateway/routes/terms-policy.js";
import type { FleetConfig } from "./config/schema.js";

export class VirtualModels {
  #routes: ReadonlyMap<string, ModelRoute> = new Map();
  #sessionHeader = "";

  /** In the order in which requests pass them. */
  readonly policies: readonly Policy[];

  constructor() {
    this.policies = [
      new TermsPolicy(),
      new RoutePolicy({ routes: () => this.#routes, sessionHeader: () => this.#sessionHeader }),
    ];
  }

  configure({ routes, routing }: FleetConfig): void {
    this.#routes = new Map(routes.flatMap((route) => [route.name, ...route.aliases].map((name) => [name, route])));
    this.#sessionHeader = routing.sessionHeader;
  }

  /** Every name that clients may send. */
  names(): readonly string[] {
    return [...this.#routes.keys()];
  }
}
