import { randomUUID } from "node:crypto";
import type { ServeContext } from "../http/context.js";

/** The fields at the beginning of every object of one answer. */
export interface Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

/** @param prefix OpenAI's id prefix for the kind of answer */
export function envelopeOf({ version }: ServeContext, prefix: "cmpl" | "chatcmpl", model: string): Envelope {
  return {
    id: `${prefix}-${randomUUID()}`,
    created: Math.floor(Date.now() / 1000),
    model,
    system_fingerprint: `millrace-${version}`,
  };
}
