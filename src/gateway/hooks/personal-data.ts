/** Patterns of personal data. An expression finds candidates; check digits decide where they exist. */
import { isIPv6 } from "node:net";
import type { PatternSource } from "./pattern-set.js";

export const PERSONAL_DATA = ["email", "phone", "iban", "credit-card", "ip"] as const;
type PersonalData = (typeof PERSONAL_DATA)[number];

const digitsOf = (text: string): string => text.replace(/\D/g, "");

const CARD_LENGTHS: readonly number[] = [13, 14, 15, 16, 19];

/** Luhn's check (ISO/IEC 7812-1), over the lengths and first digits of card networks. */
export function isCardNumber(text: string): boolean {
  const digits = digitsOf(text);
  if (!CARD_LENGTHS.includes(digits.length) || !/^[2-6]/.test(digits)) return false;
  let sum = 0;
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i]);
    const weighted = i % 2 === 0 ? digit : digit * 2;
    sum += weighted > 9 ? weighted - 9 : weighted;
  }
  return sum % 10 === 0;
}

/** The check of ISO 13616: the account number, then the country and the check digits, is 1 modulo 97. */
export function isIban(text: string): boolean {
  const compact = text.replace(/[ -]/g, "").toUpperCase();
  if (!/^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$/.test(compact)) return false;
  let remainder = 0;
  for (const character of compact.slice(4) + compact.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97;
  }
  return remainder === 1;
}

/** E.164 allows fifteen digits. */
function isPhoneNumber(text: string): boolean {
  const { length } = digitsOf(text);
  return length >= 8 && length <= 15;
}

function isIpv4(text: string): boolean {
  return text.split(".").every((part) => Number(part) <= 255 && !/^0\d/.test(part));
}

/** With four digits at least, one of them decimal: `a::b` is a name in some languages. */
function isIpv6Address(text: string): boolean {
  return isIPv6(text) && /\d/.test(text) && text.replaceAll(":", "").length >= 4;
}

const EMAIL = "[\\p{L}\\p{N}._%+'-]+@[\\p{L}\\p{N}-]+(?:\\.[\\p{L}\\p{N}-]+)*\\.\\p{L}{2,}";
/** Groups of digits with at most one separator between them. */
const DIGITS = "\\d{1,12}(?:[ .\\-/]?\\d{1,12}){0,5}";
const INTERNATIONAL = `(?:\\+|00)[1-9](?:[ .-]?\\d{1,3})?(?:[ .-]?\\(\\d{1,5}\\))?[ .-]?${DIGITS}`;
const AMERICAN = "(?:\\(\\d{3}\\) ?|\\d{3}[-. ])\\d{3}[-. ]\\d{4}";
/** National numbers: with the 0 of long-distance calls, and a separator, since plain digits may be anything. */
const NATIONAL = "(?:\\(0\\d{1,5}\\) ?|0\\d{1,5}[ /-])\\d{3,8}(?:[ -]\\d{1,6}){0,3}";

const SOURCES: Readonly<Record<PersonalData, readonly PatternSource[]>> = {
  email: [{ name: "email", regex: EMAIL }],
  phone: [
    { name: "phone", regex: `${INTERNATIONAL}|${AMERICAN}|${NATIONAL}`, isWholeWord: true, accepts: isPhoneNumber },
  ],
  iban: [
    {
      name: "iban",
      regex: "[A-Z]{2}\\d{2}(?:[ -]?[A-Z0-9]){11,30}",
      isWholeWord: true,
      ignoresCase: true,
      accepts: isIban,
    },
  ],
  "credit-card": [{ name: "credit-card", regex: "[2-6](?:[ -]?\\d){12,18}", isWholeWord: true, accepts: isCardNumber }],
  ip: [
    { name: "ip", regex: "\\d{1,3}(?:\\.\\d{1,3}){3}", isWholeWord: true, accepts: isIpv4 },
    { name: "ip", regex: "[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}", isWholeWord: true, accepts: isIpv6Address },
  ],
};

export function personalDataPatterns(kinds: readonly PersonalData[]): readonly PatternSource[] {
  return kinds.flatMap((kind) => SOURCES[kind]);
}
