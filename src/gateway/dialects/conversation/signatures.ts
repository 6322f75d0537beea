/**
 * Google signs the calls that its models make and wants the signatures back. Anthropic's dialect has signatures for
 * thoughts only, which its clients repeat unchanged: so a call's signature travels to the client and back as that of a
 * thought, marked as ours.
 */
const MARK = "millrace-call:";

export function thoughtSignature(callSignature: string): string {
  return MARK + callSignature;
}

/** @returns undefined for the signature of a real thought */
export function signatureOf(thoughtSignature: string): string | undefined {
  return thoughtSignature.startsWith(MARK) ? thoughtSignature.slice(MARK.length) : undefined;
}
