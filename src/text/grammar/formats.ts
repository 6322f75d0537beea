/**
 * The formats of strings as regular expressions that only match texts every validator accepts. Repetition counts are
 * small, because each adds states to compile.
 */

const MONTH_DAY =
  "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))";
const DATE = `[1-9][0-9]{3}-${MONTH_DAY}`;
const CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?";
const TIME = `${CLOCK}(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`;
/** The expression is unambiguous, so that its automaton is small. */
const LABEL = "[a-zA-Z0-9](-?[a-zA-Z0-9]){0,20}";
const HOST = `${LABEL}(\\.${LABEL}){0,3}`;
const OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const HEX_4 = "[0-9a-fA-F]{1,4}";

function uuid(version: string): string {
  return `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-${version}[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}`;
}

export const FORMATS: ReadonlyMap<string, string> = new Map([
  ["date", DATE],
  ["time", TIME],
  ["date-time", `${DATE}T${TIME}`],
  ["duration", "P([0-9]{1,4}D(T[0-9]{1,4}H)?|T[0-9]{1,4}[HMS]|[0-9]{1,4}[YMW])"],
  ["email", `[a-zA-Z0-9_+-]{1,20}(\\.[a-zA-Z0-9_+-]{1,20}){0,2}@(${LABEL}\\.){1,3}[a-zA-Z]{2,20}`],
  ["hostname", HOST],
  ["ipv4", `${OCTET}(\\.${OCTET}){3}`],
  ["ipv6", `${HEX_4}(:${HEX_4}){7}`],
  ["uri", `https?://${HOST}(:[1-9][0-9]{0,3})?(/[a-zA-Z0-9._~/-]*)?(\\?[a-zA-Z0-9._~&=-]*)?`],
  ["uuid", uuid("[1-8]")],
  // Pydantic's schemas name the version.
  ...["1", "3", "4", "5", "6", "7", "8"].map((version) => [`uuid${version}`, uuid(version)] as const),
]);
