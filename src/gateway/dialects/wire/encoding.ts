/**
 * Reads the encoding of an upstream's answer from its headers. They are hostile: a name may come in any case, or twice.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";

type Headers = IncomingHttpHeaders | OutgoingHttpHeaders;

/** How the body is compressed. @returns undefined: not at all, as the gateway asks */
export function encodingOf({ "content-encoding": encoding }: Headers): string | undefined {
  const name = String(encoding ?? "").trim();
  return name === "" || name.toLowerCase() === "identity" ? undefined : name;
}

/** The media type in lower case, with its parameters; "": there is none. */
export function mediaTypeOf({ "content-type": type }: Headers): string {
  return String(type ?? "")
    .trim()
    .toLowerCase();
}
