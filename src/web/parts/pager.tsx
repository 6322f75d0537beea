/** Buttons to the newer and older pages of a list; each page begins after the last row of the page before. */
import type { Signal } from "@preact/signals";

interface PagerProps {
  /** Ids of the last rows of the pages before this one. */
  readonly after: Signal<readonly string[]>;
  /** Id of the last row of this page; undefined: there is no older one. */
  readonly last: string | undefined;
}

export function Pager({ after, last }: PagerProps) {
  // A list of one page needs no buttons.
  if (after.value.length === 0 && last === undefined) return null;
  return (
    <p class="row">
      <button
        type="button"
        class="plain"
        disabled={after.value.length === 0}
        onClick={() => {
          after.value = after.value.slice(0, -1);
        }}
      >
        Newer
      </button>
      <button
        type="button"
        class="plain"
        disabled={last === undefined}
        onClick={() => {
          after.value = [...after.value, last!];
        }}
      >
        Older
      </button>
    </p>
  );
}

/** Query for the part of the list after the last of these rows. */
export const behind = (after: readonly string[]): string =>
  after.length === 0 ? "" : `&after=${encodeURIComponent(after.at(-1)!)}`;
