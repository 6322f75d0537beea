/** Ids of reservations: unique, and with the id of their request, which its client may have chosen, and used twice. */
import { randomUUID } from "node:crypto";

const UUID_LENGTH = 36;
const MAX_REQUEST_ID = 200;

export function newReservationId(requestId: string): string {
  return `${randomUUID()}/${requestId.slice(0, MAX_REQUEST_ID)}`;
}

export function requestIdOf(reservationId: string): string {
  return reservationId.slice(UUID_LENGTH + 1);
}
