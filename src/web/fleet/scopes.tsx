/**
 * Common parts of the tables of keys, teams and organisations: limits, budgets, their use, and the form fields that set
 * them.
 */

/** Use of a scope, with a figure for each limit. */
interface Use {
  readonly requests_this_minute: number | null;
  readonly tokens_this_minute: number | null;
  readonly concurrent_requests: number | null;
  readonly budgets: Readonly<Record<string, { readonly spent?: string }>>;
  readonly token_budgets: Readonly<Record<string, { readonly spent?: number }>>;
}

export interface Scope {
  readonly id: string;
  readonly name: string;
  readonly models: readonly string[] | null;
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: number | null;
  readonly concurrent_requests: number | null;
  readonly budgets: Readonly<Record<string, { readonly hard?: string; readonly soft?: string }>>;
  readonly token_budgets: Readonly<Record<string, { readonly hard?: number; readonly soft?: number }>>;
  /** null: the server does not count use. */
  readonly used: Use | null;
}

export interface ScopePage<T extends Scope> {
  readonly data: readonly T[];
  readonly has_more: boolean;
  readonly last_id: string | null;
}

/** Headings of the cells in LimitCells. */
export const LIMIT_COLUMNS = ["Models", "Requests a minute", "Tokens a minute", "At once", "Budgets"] as const;

const number = (value: number): string => value.toLocaleString("en");

function rateText(limit: number | null, used: number | null | undefined): string {
  if (limit === null) return "–";
  return used == null ? number(limit) : `${number(used)} of ${number(limit)}`;
}

interface BudgetLine {
  readonly unit: "dollars" | "tokens";
  readonly window: string;
  /** Dollars as text, tokens as numbers. */
  readonly hard?: string | number | undefined;
  readonly soft?: string | number | undefined;
  readonly spent?: string | number | undefined;
}

function BudgetText({ unit, window, hard, soft, spent }: BudgetLine) {
  const text = (amount: string | number | undefined) => (unit === "tokens" ? number(Number(amount)) : amount);
  const [limit, isSoft] = hard === undefined ? [soft, true] : [hard, false];
  const share = Number(spent) / Number(limit);
  return (
    <div class={spent !== undefined && share >= 1 ? "error" : ""}>
      {spent !== undefined && `${unit === "tokens" ? text(spent) : Number(spent).toFixed(4)} of `}
      {text(limit)} {unit}
      {isSoft ? " (alert only)" : soft !== undefined && ` (alert at ${text(soft)})`}
      {window === "total" ? " in total" : ` a ${window}`}
    </div>
  );
}

function BudgetTexts({ scope }: { readonly scope: Scope }) {
  const { budgets, token_budgets: tokenBudgets, used } = scope;
  const dollars = Object.entries(budgets);
  const tokens = Object.entries(tokenBudgets);
  if (dollars.length + tokens.length === 0) return <>–</>;
  return (
    <>
      {dollars.map(([window, budget]) => (
        <BudgetText key={window} unit="dollars" window={window} {...budget} spent={used?.budgets[window]?.spent} />
      ))}
      {tokens.map(([window, budget]) => (
        <BudgetText key={window} unit="tokens" window={window} {...budget} spent={used?.token_budgets[window]?.spent} />
      ))}
    </>
  );
}

/** The cells under LIMIT_COLUMNS. */
export function LimitCells({ scope }: { readonly scope: Scope }) {
  const { models, used } = scope;
  return (
    <>
      <td>{models?.join(", ") ?? "all"}</td>
      <td>{rateText(scope.requests_per_minute, used?.requests_this_minute)}</td>
      <td>{rateText(scope.tokens_per_minute, used?.tokens_this_minute)}</td>
      <td>{rateText(scope.concurrent_requests, used?.concurrent_requests)}</td>
      <td>
        <BudgetTexts scope={scope} />
      </td>
    </>
  );
}

const NUMBERS = [
  { field: "requests_per_minute", label: "Requests a minute" },
  { field: "tokens_per_minute", label: "Tokens a minute" },
  { field: "concurrent_requests", label: "Requests at once" },
] as const;

/** @param of prefix of the fields' ids, because a page may have this form several times */
export function LimitFields({ of }: { readonly of: string }) {
  return (
    <>
      <div class="field">
        <label for={`${of}-models`}>Models (patterns)</label>
        <input id={`${of}-models`} name="models" placeholder="all" />
      </div>
      {NUMBERS.map(({ field, label }) => (
        <div class="field" key={field}>
          <label for={`${of}-${field}`}>{label}</label>
          <input id={`${of}-${field}`} name={field} type="number" min={1} placeholder="no limit" />
        </div>
      ))}
      <div class="field">
        <label for={`${of}-budget`}>Budget, dollars</label>
        <input id={`${of}-budget`} name="budget" inputMode="decimal" placeholder="none" />
      </div>
      <div class="field">
        <label for={`${of}-soft`}>Alert at, dollars</label>
        <input id={`${of}-soft`} name="soft" inputMode="decimal" placeholder="none" />
      </div>
      <div class="field">
        <label for={`${of}-tokens`}>Budget, tokens</label>
        <input id={`${of}-tokens`} name="tokens" type="number" min={0} placeholder="none" />
      </div>
      <div class="field">
        <label for={`${of}-window`}>… for</label>
        <select id={`${of}-window`} name="window">
          <option value="day">each day</option>
          <option value="month">each month</option>
          <option value="hour">each hour</option>
          <option value="total">all time</option>
        </select>
      </div>
    </>
  );
}

/** The trimmed text of a form's field; undefined: it is empty. */
export const fieldOf = (form: HTMLFormElement, name: string): string | undefined =>
  String(new FormData(form).get(name)).trim() || undefined;

/** The limits in a form with LimitFields, in the admin API's form. */
export function limitsOf(form: HTMLFormElement): Record<string, unknown> {
  const limits: Record<string, unknown> = {};
  const models = fieldOf(form, "models");
  if (models !== undefined) limits.models = models.split(/[\s,]+/);
  for (const { field } of NUMBERS) {
    const text = fieldOf(form, field);
    if (text !== undefined) limits[field] = Number(text);
  }
  const window = fieldOf(form, "window")!;
  const [hard, soft, tokens] = ["budget", "soft", "tokens"].map((name) => fieldOf(form, name));
  if (hard !== undefined || soft !== undefined) limits.budgets = { [window]: { hard, soft } };
  if (tokens !== undefined) limits.token_budgets = { [window]: { hard: Number(tokens) } };
  return limits;
}
