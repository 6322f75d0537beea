/** Removes keys from a provider's texts: errors quote the sent key, or a part of it. */

const SHOWN = "(key)";
/** The forms of the providers' keys, whole or masked in the middle. */
const KEYS =
  /\b(?:sk|pk|rk|gsk|xai|key)-[\w*.-]{6,}|\bAIza[\w*-]{10,}|\b(?:AKIA|ASIA|ABSK)[\w*+/=-]{8,}|\b[Bb]earer\s+[^\s"']+/g;
/** Removing a shorter secret would damage words. */
const LEAST_LENGTH = 6;

export class Redactor {
  readonly #secrets: readonly string[];

  constructor(secrets: readonly (string | undefined)[]) {
    this.#secrets = secrets.filter((secret): secret is string => secret !== undefined && secret.length >= LEAST_LENGTH);
  }

  /** Cleans an error's text: also removes everything that looks like a key, or a part of one. */
  text(text: string): string {
    return this.own(text).replace(KEYS, SHOWN);
  }

  /** Cleans an answer's text of the gateway's own secrets; the answer may name others' keys. */
  own(text: string): string {
    let shown = text;
    for (const secret of this.#secrets) shown = shown.replaceAll(secret, SHOWN);
    return shown;
  }

  /** The same bytes if there is nothing to remove. */
  ownBytes(bytes: Buffer): Buffer {
    return this.#secrets.some((secret) => bytes.includes(secret))
      ? Buffer.from(this.own(bytes.toString("utf8")))
      : bytes;
  }
}
