/** A route as data: the models that answer for a virtual name, and the rules that choose among them. */
import type { ErrorClass } from "./error-class.js";
import type { Language, Script } from "./language.js";
import type { RequestFacts, ResponseFormat } from "./request-facts.js";
import type { Weighted } from "./weighted-choice.js";

interface Range {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

/** All given conditions must hold; a list holds if one of its values does. */
interface Condition {
  /** The name that the client sent: the route's own, or an alias. */
  readonly model?: readonly string[] | undefined;
  readonly tenant?: readonly string[] | undefined;
  /** Ids of keys. */
  readonly key?: readonly string[] | undefined;
  readonly team?: readonly string[] | undefined;
  readonly promptTokens?: Range | undefined;
  readonly promptBytes?: Range | undefined;
  readonly language?: readonly Language[] | undefined;
  readonly script?: readonly Script[] | undefined;
  readonly tools?: boolean | undefined;
  readonly responseFormat?: readonly ResponseFormat[] | undefined;
  /** Values by the header's name in lower case. */
  readonly headers?: Readonly<Record<string, readonly string[]>> | undefined;
  readonly path?: readonly string[] | undefined;
}

export interface RouteRule {
  readonly when: Condition;
  /** At least one with a weight above 0. */
  readonly to: readonly Weighted[];
}

export interface ModelRoute {
  readonly name: string;
  readonly aliases: readonly string[];
  /** The first rule that holds decides. */
  readonly rules: readonly RouteRule[];
  /** Models that get a request after an error of each class, in this order. */
  readonly fallback: { readonly [Class in ErrorClass]?: readonly string[] | undefined };
  /** Upper bound of the models that one request is sent to. */
  readonly maxAttempts: number;
}

const within = (value: number, { min = 0, max = Number.POSITIVE_INFINITY }: Range): boolean =>
  value >= min && value <= max;

const isOneOf = <T>(values: readonly T[] | undefined, value: T | undefined): boolean =>
  values === undefined || (value !== undefined && values.includes(value));

/** Facts that take time to compute come last. */
function holds(condition: Condition, facts: RequestFacts): boolean {
  const { caller } = facts;
  const { teamId } = caller as { readonly teamId?: string };
  return (
    isOneOf(condition.model, facts.model) &&
    isOneOf(condition.tenant, caller.tenant) &&
    isOneOf(condition.key, caller.keyId) &&
    isOneOf(condition.team, teamId) &&
    isOneOf(condition.path, facts.path) &&
    Object.entries(condition.headers ?? {}).every(([name, values]) => {
      const value = facts.headers[name];
      return typeof value === "string" && values.includes(value);
    }) &&
    (condition.tools === undefined || condition.tools === facts.hasTools) &&
    isOneOf(condition.responseFormat, condition.responseFormat && facts.responseFormat) &&
    (condition.promptBytes === undefined || within(facts.promptBytes, condition.promptBytes)) &&
    (condition.promptTokens === undefined || within(facts.promptTokens, condition.promptTokens)) &&
    isOneOf(condition.script, condition.script && facts.script) &&
    isOneOf(condition.language, condition.language && facts.language)
  );
}

/** @returns undefined if no rule holds */
export function ruleFor({ rules }: ModelRoute, facts: RequestFacts): RouteRule | undefined {
  return rules.find(({ when }) => holds(when, facts));
}

/** A route without rules of its own. */
export const ROUTE_DEFAULTS: Omit<ModelRoute, "name"> = { aliases: [], rules: [], fallback: {}, maxAttempts: 3 };
