/**
 * Ids of reservations: unique, and including the request's id, which its client may have chosen and reused. A lasting
 * reservation belongs to work that continues after a restart: it does not become a charge when its gateway is gone.
 */
import { randomUUID } from "node:crypto";

const UUID_LENGTH = 36;
const MAX_REQUEST_ID = 200;

export function newReservationId(requestId: string): string {
  return `${randomUUID()}/${requestId.slice(0, MAX_REQUEST_ID)}`;
}

/** Prefix of lasting reservations' ids; the others begin with a UUID. */
export const LASTING = "lasting/";

export const isLasting = (reservationId: string): boolean => reservationId.startsWith(LASTING);

export function requestIdOf(reservationId: string): string {
  return reservationId.slice(UUID_LENGTH + 1);
}
