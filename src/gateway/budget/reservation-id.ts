/**
 * Ids of reservations: unique, and with the id of their request, which its client may have chosen, and used twice. A
 * lasting one belongs to work that goes on after a restart: it does not become a charge when its gateway is gone.
 */
import { randomUUID } from "node:crypto";

const UUID_LENGTH = 36;
const MAX_REQUEST_ID = 200;

export function newReservationId(requestId: string): string {
  return `${randomUUID()}/${requestId.slice(0, MAX_REQUEST_ID)}`;
}

/** How ids of lasting reservations begin; the others begin with a UUID. */
export const LASTING = "lasting/";

export const isLasting = (reservationId: string): boolean => reservationId.startsWith(LASTING);

export function requestIdOf(reservationId: string): string {
  return reservationId.slice(UUID_LENGTH + 1);
}
