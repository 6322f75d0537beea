/**
 * Reads the encoding of an upstream's answer from its headers. These are untrusted: a name may have any case, or come
 * twice.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";

type Headers = IncomingHttpHeaders | OutgoingHttpHeaders;

/** The compression of the body. @returns undefined: none, as the gateway asks */
export function encodingOf({ "content-encoding": encoding }: Headers): string | undefined {
  const name = String(encoding ?? "").trim();
  return name === "" || name.toLowerCase() === "identity" ? undefined : name;
}

/** The media type in lower case, with its parameters; "": none. */
export function mediaTypeOf({ "content-type": type }: Headers): string {
  return String(type ?? "")
    .trim()
    .toLowerCase();
}
