/** Organisations, teams and keys as tables. */
import { formatTable, type Json } from "./format.js";

/** @example timeText(1_800_000_000) // "2027-01-15 08:00" */
function timeText(seconds: unknown): string {
  return typeof seconds === "number" ? new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") : "";
}

type Budgets = Readonly<Record<string, { readonly hard?: string | number; readonly soft?: string | number }>>;

function budgetText(scope: Json): string {
  const text = (budgets: unknown, amountOf: (amount: string | number) => string): string[] =>
    Object.entries((budgets ?? {}) as Budgets).map(([window, { hard, soft }]) => {
      const warned = soft === undefined ? "" : ` (soft ${amountOf(soft)})`;
      return `${window} ${amountOf(hard ?? "∞")}${warned}`;
    });
  const money = text(scope.budgets, (dollars) => `$${dollars}`);
  return [...money, ...text(scope.token_budgets, (tokens) => `${tokens} tokens`)].join(", ");
}

function limitText(scope: Json): string {
  const parts = [
    [scope.requests_per_minute, "requests/min"],
    [scope.tokens_per_minute, "tokens/min"],
    [scope.concurrent_requests, "at once"],
  ];
  return parts
    .flatMap(([count, unit]) => (count === null || count === undefined ? [] : [`${count} ${unit}`]))
    .join(", ");
}

const modelsText = (models: unknown): string => (Array.isArray(models) ? models.join(", ") : "all");

function stateText(scope: Json): string {
  if (typeof scope.revoked_at === "number") return `revoked ${timeText(scope.revoked_at)}`;
  if (typeof scope.deleted_at === "number") return `deleted ${timeText(scope.deleted_at)}`;
  return typeof scope.expires_at === "number" ? `expires ${timeText(scope.expires_at)}` : "";
}

export function scopeTable(scopes: readonly Json[]): string {
  const isOfKeys = scopes[0]?.object === "key";
  const rows = scopes.map((scope) => [
    String(scope.id),
    String(scope.name),
    ...(isOfKeys ? [String(scope.team ?? scope.org), String(scope.hint), timeText(scope.last_used_at)] : []),
    modelsText(scope.models),
    limitText(scope),
    budgetText(scope),
    stateText(scope),
  ]);
  const head = ["id", "name", ...(isOfKeys ? ["of", "key", "last used (UTC)"] : []), "models", "limits", "budgets", ""];
  return formatTable([head, ...rows]);
}

export function scopeText(scope: Json): string {
  const rows: [string, string][] = [
    ["id", String(scope.id)],
    ["name", String(scope.name)],
    ["organisation", String(scope.org ?? "")],
    ["team", String(scope.team ?? "")],
    ["key", String(scope.hint ?? "")],
    ["models", modelsText(scope.models)],
    ["limits", limitText(scope)],
    ["budgets", budgetText(scope)],
    [
      "metadata",
      Object.entries((scope.metadata ?? {}) as Json)
        .map(([name, value]) => `${name}=${value}`)
        .join(", "),
    ],
    ["created (UTC)", timeText(scope.created_at)],
    ["last used (UTC)", timeText(scope.last_used_at)],
    ["old key until (UTC)", typeof scope.revoked_at === "number" ? "" : timeText(scope.previous_valid_until)],
    ["state", stateText(scope)],
  ];
  return formatTable(rows.filter(([, value]) => value !== ""));
}

/** A key's text, which is shown only now. */
export function newKeyText(scope: Json): string {
  return `${scopeText(scope)}\n\n  ${scope.key}\n\n  keep it now: it is not shown again`;
}
