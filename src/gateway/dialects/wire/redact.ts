/** Takes keys out of a provider's texts: errors quote the key that was sent, or a part of it. */

const SHOWN = "(key)";
/** The forms of the providers' keys, whole or masked in the middle. */
const KEYS =
  /\b(?:sk|pk|rk|gsk|xai|key)-[\w*.-]{6,}|\bAIza[\w*-]{10,}|\b(?:AKIA|ASIA|ABSK)[\w*+/=-]{8,}|\b[Bb]earer\s+[^\s"']+/g;
/** A shorter secret would take words apart. */
const LEAST_LENGTH = 6;

export class Redactor {
  readonly #secrets: readonly string[];

  constructor(secrets: readonly (string | undefined)[]) {
    this.#secrets = secrets.filter((secret): secret is string => secret !== undefined && secret.length >= LEAST_LENGTH);
  }

  /** Cleans an error's text: anything that looks like a key, or a part of one, is taken out, too. */
  text(text: string): string {
    return this.own(text).replace(KEYS, SHOWN);
  }

  /** Cleans an answer's text, which may speak of keys of others. */
  own(text: string): string {
    let shown = text;
    for (const secret of this.#secrets) shown = shown.replaceAll(secret, SHOWN);
    return shown;
  }

  /** The same bytes where there is nothing to take out. */
  ownBytes(bytes: Buffer): Buffer {
    return this.#secrets.some((secret) => bytes.includes(secret))
      ? Buffer.from(this.own(bytes.toString("utf8")))
      : bytes;
  }
}
