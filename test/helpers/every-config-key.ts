/** Files with every key of millrace.yaml, made from its schema. */
import { configJsonSchema, type JsonSchema } from "../../src/fleet/config/key-paths.js";

/** More than any key has forms. */
const NUM_FORMS = 6;

function contentOf(schema: JsonSchema, form: number, nextText: () => string): unknown {
  const make = ({ anyOf, items, properties, additionalProperties }: JsonSchema): unknown => {
    if (anyOf !== undefined) return make(anyOf[form % anyOf.length]!);
    if (items !== undefined) return [make(items)];
    if (properties === undefined && typeof additionalProperties !== "object") return nextText();
    const inner = typeof additionalProperties === "object" ? [["NAME", additionalProperties] as const] : [];
    return Object.fromEntries([...Object.entries(properties ?? {}), ...inner].map(([key, each]) => [key, make(each)]));
  };
  return make(schema);
}

/**
 * Several files, since a key may have several forms. Every value is env:V0, env:V1 and so on, whatever its type, so the
 * files are not valid.
 */
export function everyConfigKey(): readonly unknown[] {
  const schema = configJsonSchema();
  // The walk over the schema, and this one, would pass over other ways to combine schemas.
  const unknown = /"(oneOf|allOf|\$ref|prefixItems|patternProperties)":/.exec(JSON.stringify(schema));
  if (unknown !== null) throw new Error(`expected a schema without ${unknown[1]}, got one with it`);
  return Array.from({ length: NUM_FORMS }, (_, form) => {
    let numTexts = 0;
    return contentOf(schema, form, () => `env:V${numTexts++}`);
  });
}
