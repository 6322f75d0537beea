/** Values that paragraphs state and answers copy: codes, dates, times, amounts. Each is text as it is written. */
import { inventName, names } from "./names.js";
import type { Random } from "./random.js";
import { days, months } from "./words.js";

const LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ";

function letters(random: Random, numLetters: number): string {
  return Array.from({ length: numLetters }, () => LETTERS[random.int(0, LETTERS.length - 1)]).join("");
}

export function digits(random: Random, numDigits: number): string {
  return Array.from({ length: numDigits }, (_, index) => random.int(index === 0 ? 1 : 0, 9)).join("");
}

const codePrefixes = ["INV", "ORD", "REF", "TK", "PO", "BK", "SKU", "CASE", "JOB", "LOT"] as const;

/** "INV-20417", "K4821", "BX-77-Q", "904-115" */
export function code(random: Random): string {
  return random.weighted([
    [4, `${random.pick(codePrefixes)}-${digits(random, random.int(3, 5))}`],
    [2, `${letters(random, 1)}${digits(random, random.int(2, 4))}`],
    [2, `${letters(random, 2)}-${digits(random, 2)}-${letters(random, 1)}`],
    [1, `${digits(random, 3)}-${digits(random, 3)}`],
  ]);
}

/** "14 March 2024" or "2024-03-14" or "March 14" */
export function date(random: Random): string {
  const day = random.int(1, 28);
  const month = random.int(1, 12);
  const year = random.int(1998, 2029);
  return random.weighted([
    [5, `${day} ${months[month - 1]} ${year}`],
    [3, `${year}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`],
    [2, `${months[month - 1]} ${day}`],
    [1, random.pick(days)],
  ]);
}

/** "14:30", "9 am" */
export function time(random: Random): string {
  return random.isChance(0.7)
    ? `${String(random.int(6, 22)).padStart(2, "0")}:${random.pick(["00", "05", "10", "15", "20", "30", "40", "45", "50"])}`
    : `${random.int(1, 12)} ${random.pick(["am", "pm"])}`;
}

/** "48.5", "48.25", "48": never a last zero after the point, so that JSON writes the same characters. */
export function amount(random: Random, max = 999): string {
  const whole = random.isChance(0.4) ? random.int(1, 60) : random.int(1, max);
  return random.weighted([
    [3, `${whole}`],
    [2, `${whole}.5`],
    [4, `${whole}.${random.int(0, 9)}${random.int(1, 9)}`],
  ]);
}

export function email(random: Random): string {
  const user = random.pick(names.filter((name) => /^[A-Za-z]+$/.test(name))).toLowerCase();
  const host = inventName(random).toLowerCase();
  return `${user}${random.isChance(0.3) ? random.int(1, 99) : ""}@${host}.${random.pick(["com", "org", "net", "example", "io"])}`;
}

export function phoneNumber(random: Random): string {
  return `${random.pick(["0", "+4", "+3"])}${digits(random, random.int(2, 3))} ${digits(random, 3)} ${digits(random, random.int(2, 4))}`;
}

/** 1 to `max`, smaller ones more often. */
export function count(random: Random, max: number): number {
  return random.int(1, random.isChance(0.5) ? Math.min(12, max) : max);
}
