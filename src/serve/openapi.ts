/**
 * GET /openapi.json: the routes and the fields of requests, derived from the tables and schemas that check requests.
 */

import { z } from "zod";
import type { JsonObject } from "../core/json-body.js";
import type { BodyRules, DescribedRoute } from "./http/route.js";

const IGNORED = { description: "accepted and ignored" };

function schemaOf(type: z.ZodType, io: "input" | "output"): JsonObject {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io, unrepresentable: "any" });
  return schema;
}

/** Lists the fields that are checked or ignored. Known but refused fields are left to the written documentation. */
function bodySchema({ schema, inert }: BodyRules): JsonObject {
  const described = schemaOf(schema, "input");
  const properties: Record<string, unknown> = { ...(described.properties as object) };
  for (const name of inert) properties[name] ??= IGNORED;
  return { ...described, properties };
}

function answersOf(route: DescribedRoute): JsonObject {
  const { answerType = "application/json", answer, rules } = route;
  const schema = answer === undefined ? OBJECT : schemaOf(answer, "output");
  const isDescribed = answer !== undefined || answerType === "application/json";
  const content: Record<string, object> = { [answerType]: isDescribed ? { schema } : {} };
  if (rules !== undefined && "stream" in rules.schema.shape) content["text/event-stream"] = {};
  return {
    200: { description: "the answer", content },
    default: {
      description: "an error",
      content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
    },
  };
}

const OBJECT = { type: "object" };

function operationOf(route: DescribedRoute, parameters: readonly string[]): JsonObject {
  const { method, path, summary, isProtected, rules, query } = route;
  const words = path.split(/[^a-zA-Z0-9]+/).filter((word) => word !== "");
  const operation: Record<string, unknown> = {
    operationId: [method.toLowerCase(), ...words].join("_"),
    summary,
    responses: answersOf(route),
  };
  // The last, empty entry is for servers without keys.
  if (isProtected) operation.security = [{ bearer: [] }, { apiKey: [] }, {}];
  if (rules !== undefined) {
    operation.requestBody = { required: true, content: { "application/json": { schema: bodySchema(rules) } } };
  }
  const inQuery = query === undefined ? [] : Object.entries(schemaOf(query, "input").properties as JsonObject);
  const all = [
    ...parameters.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
    ...inQuery.map(([name, schema]) => ({ name, in: "query", required: false, schema })),
  ];
  if (all.length > 0) operation.parameters = all;
  return operation;
}

const ERROR: JsonObject = {
  type: "object",
  properties: {
    error: {
      type: "object",
      properties: { message: { type: "string" }, type: { type: "string" }, code: { type: "string" }, param: {} },
      required: ["message", "type"],
    },
  },
  required: ["error"],
};

export function openApiDocument(routes: readonly DescribedRoute[], version: string): JsonObject {
  const paths: Record<string, Record<string, JsonObject>> = {};
  for (const route of routes) {
    const parameters = [...route.path.matchAll(/:(\w+)/g)].map(([, name = ""]) => name);
    const path = route.path.replace(/:(\w+)(?:\{[^}]*\})?/g, "{$1}");
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = operationOf(route, parameters);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "millrace",
      version,
      description: "OpenAI's API and Anthropic's Messages API, with vLLM's additions.",
    },
    paths,
    components: {
      schemas: { Error: ERROR },
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
      },
    },
  };
}
