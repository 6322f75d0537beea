/** Chooses how far back a table reaches. */
import type { Signal } from "@preact/signals";

const DAYS = { "last day": 1, "last week": 7, "last month": 30, "last year": 365 } as const;

export type Period = keyof typeof DAYS;

export const daysOf = (period: Period): number => DAYS[period];

/** @param periods the choices */
export function PeriodField({
  period,
  periods,
}: {
  readonly period: Signal<Period>;
  readonly periods: readonly Period[];
}) {
  return (
    <div class="field">
      <label for="period">Of the</label>
      <select
        id="period"
        value={period.value}
        onChange={({ currentTarget }) => {
          period.value = currentTarget.value as Period;
        }}
      >
        {periods.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </div>
  );
}
