/** Pictures for models, as data URLs, which requests, pages and kept conversations all accept. */

/** Types by a file's first bytes, since its name proves nothing. */
const KINDS: readonly (readonly [type: string, start: RegExp])[] = [
  ["image/png", /^\x89PNG\r\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF[\s\S]{4}WEBP/],
];
const START_BYTES = 12;
/** Most arguments of one call. */
const CHUNK_BYTES = 8192;

const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;
export const isPicture = (address: string): boolean => PICTURE.test(address);

const binary = (bytes: Uint8Array): string => {
  let text = "";
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
  }
  return text;
};

/** @returns undefined unless the bytes are a picture of a type that models accept */
export function pictureOf(bytes: Uint8Array): string | undefined {
  const start = binary(bytes.subarray(0, START_BYTES));
  const kind = KINDS.find(([, pattern]) => pattern.test(start));
  return kind === undefined ? undefined : `data:${kind[0]};base64,${btoa(binary(bytes))}`;
}
