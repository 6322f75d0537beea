/** Python's `strftime` in the C locale, for the directives that chat templates use; local time. */

const MONTHS = "January February March April May June July August September October November December".split(" ");
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");

const pad2 = (value: number): string => String(value).padStart(2, "0");
const hour12 = (date: Date): number => date.getHours() % 12 || 12;

const FORMATTERS: Readonly<Record<string, (date: Date) => string>> = {
  Y: (date) => String(date.getFullYear()),
  y: (date) => pad2(date.getFullYear() % 100),
  m: (date) => pad2(date.getMonth() + 1),
  d: (date) => pad2(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2, " "),
  "-d": (date) => String(date.getDate()),
  "-m": (date) => String(date.getMonth() + 1),
  B: (date) => MONTHS[date.getMonth()]!,
  b: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  A: (date) => DAYS[date.getDay()]!,
  a: (date) => DAYS[date.getDay()]!.slice(0, 3),
  H: (date) => pad2(date.getHours()),
  I: (date) => pad2(hour12(date)),
  M: (date) => pad2(date.getMinutes()),
  S: (date) => pad2(date.getSeconds()),
  p: (date) => (date.getHours() < 12 ? "AM" : "PM"),
  F: (date) => `${date.getFullYear()}-${pad2(date.getMonth() + 1)}-${pad2(date.getDate())}`,
  T: (date) => `${pad2(date.getHours())}:${pad2(date.getMinutes())}:${pad2(date.getSeconds())}`,
  "%": () => "%",
};

const MOST_FORMAT_LENGTH = 1000;

/** Unknown directives stay unchanged, as in glibc. Throws Error for a format of more than 1,000 characters. */
export function strftime(date: Date, format: string): string {
  if (format.length > MOST_FORMAT_LENGTH) {
    throw new Error(`expected a time's format of at most ${MOST_FORMAT_LENGTH} characters, got ${format.length}`);
  }
  return format.replace(/%(-?[A-Za-z%])/g, (directive, name: string) => FORMATTERS[name]?.(date) ?? directive);
}
