/** Reads a request's body as JSON, from a socket or from a test's request object. */
import { readBody } from "../../core/body-reader.js";
import { readIncoming, tooLarge } from "../../core/json-body.js";
import type { AppContext, ServeLimits } from "./context.js";
import { onDisconnect } from "./disconnect.js";

async function readBytes(c: AppContext, limits: ServeLimits): Promise<Uint8Array> {
  if (c.env?.incoming !== undefined) return readIncoming(c.env.incoming, limits);
  const bytes = new Uint8Array(await c.req.raw.arrayBuffer());
  if (bytes.length > limits.maxBodyBytes) throw tooLarge(limits);
  return bytes;
}

/** @example const body = await readJsonObject(c, limits); // { model: "mill", messages: […] } */
export async function readJsonObject(c: AppContext, limits: ServeLimits): Promise<Readonly<Record<string, unknown>>> {
  const known = c.get("body");
  if (known !== undefined) return known;
  const bytes = await readBytes(c, limits);
  let endWatch = () => {};
  const onWait = (leave: () => void) => {
    endWatch = onDisconnect(c, leave);
  };
  try {
    return (await readBody(bytes, { idField: c.get("idField"), tenant: c.get("tenant"), onWait })).body;
  } finally {
    endWatch();
  }
}
