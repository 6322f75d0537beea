/** Damages JSON for fuzz tests: any value anywhere in it may become another one, or go. */
import fc from "fast-check";

type Container = Record<string, unknown> | unknown[];

/** Replaces the `index`th of all values below `json` (counted round), leaving `json` as it is. */
function replaceValue(json: unknown, index: number, value: unknown): unknown {
  const copy = structuredClone(json);
  const places: [Container, string][] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    for (const key of Object.keys(node)) {
      places.push([node as Container, key]);
      visit((node as Record<string, unknown>)[key]);
    }
  };
  visit(copy);
  const place = places[index % Math.max(1, places.length)];
  if (place === undefined) return copy;
  const [container, key] = place;
  if (value === undefined && !Array.isArray(container)) delete container[key];
  else (container as Record<string, unknown>)[key] = value;
  return copy;
}

/**
 * `sound` with one to three values replaced: by numbers that break arithmetic, by texts, by other shapes, by nothing.
 */
export function damagedJson(sound: unknown): fc.Arbitrary<unknown> {
  const value = fc.oneof(
    fc.constantFrom<unknown>(
      undefined,
      null,
      true,
      false,
      "",
      "x",
      [],
      {},
      -1,
      0,
      1,
      0.5,
      7,
      1e9,
      2 ** 53,
      1e308,
      -1e308,
    ),
    fc.jsonValue({ maxDepth: 2 }),
  );
  return fc
    .array(fc.tuple(fc.nat(), value), { minLength: 1, maxLength: 3 })
    .map((changes) => changes.reduce<unknown>((json, [index, to]) => replaceValue(json, index, to), sound));
}
