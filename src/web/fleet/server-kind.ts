/** Whether the page comes from a gateway or from a server of one model: only a gateway's health lists models. */
import { signal } from "@preact/signals";

interface FleetHealth {
  readonly status: string;
  readonly models?: readonly { readonly model: string; readonly instances: Readonly<Record<string, number>> }[];
}

export const health = signal<FleetHealth | undefined>(undefined);
/** Undefined: the server has not answered yet. */
export const isFleet = signal<boolean | undefined>(undefined);

export async function learnServer(): Promise<void> {
  try {
    // A starting or draining server also reports its kind.
    health.value = (await (await fetch("health")).json()) as FleetHealth;
    isFleet.value = health.value.models !== undefined;
  } catch {
    health.value = undefined;
    isFleet.value ??= false;
  }
}
