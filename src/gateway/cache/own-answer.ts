/** Whether an answer may be kept under the name of the model that the request asked. */
import type { GatewayRequest } from "../request.js";

interface Identity {
  /** The model's own name, whatever the client calls it. */
  readonly model: string;
  /** Changes whenever the model's weights, its engine or their settings do. */
  readonly version: string | undefined;
}

/**
 * Whether the model itself answered, and still has the version that it had before the request: later policies may send
 * a request elsewhere or answer it, and a route may have asked another model before.
 *
 * @param identityOf the model that a client's name stands for now; undefined: no model with a cache
 */
export function isOwnAnswer(
  { model: asked, record }: GatewayRequest,
  before: Identity,
  identityOf: (name: string) => Identity | undefined,
): boolean {
  const last = record.attempts.findLast(({ outcome }) => outcome === "answered");
  if (last === undefined || identityOf(last.model)?.model !== before.model) return false;
  return identityOf(asked)?.version === before.version;
}
