/** To the newer and the older pages of a list, each of which begins behind the last row of the one before. */
import type { Signal } from "@preact/signals";

interface PagerProps {
  /** Ids of the rows behind which the pages until this one begin. */
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

/** The list's part that begins behind the last of these rows. */
export const behind = (after: readonly string[]): string =>
  after.length === 0 ? "" : `&after=${encodeURIComponent(after.at(-1)!)}`;
