/**
 * Google signs the calls that its models make and wants the signatures back. Anthropic's dialect has signatures for
 * thoughts only, which its clients repeat unchanged: so a call's signature travels to the client and back as a
 * thought's, marked as ours.
 */
const MARK = "millrace-call:";

export function thoughtSignature(callSignature: string): string {
  return MARK + callSignature;
}

/** @returns undefined for the signature of a real thought */
export function signatureOf(thoughtSignature: string): string | undefined {
  return thoughtSignature.startsWith(MARK) ? thoughtSignature.slice(MARK.length) : undefined;
}

/**
 * The encrypted content of a reasoning item, which a client of responses repeats unread: the signature of the item's
 * thought ("" if it has none), the signature of the call behind it, or thoughts that the provider has encrypted.
 */
export interface Sealed {
  readonly kind: "thought" | "call" | "hidden";
  readonly value: string;
}

const SEAL = /^millrace-(thought|call|hidden):(.*)$/s;

export const sealed = ({ kind, value }: Sealed): string => `millrace-${kind}:${value}`;

/** @returns undefined for a signature that another provider encrypted */
export function unsealed(encrypted: string): Sealed | undefined {
  const [, kind, value] = SEAL.exec(encrypted) ?? [];
  return kind === undefined || value === undefined ? undefined : { kind: kind as Sealed["kind"], value };
}
