/** Times as the visitor's own clock shows them. */
import { useMemo } from "preact/hooks";

export function useTimeText(): (seconds: number | null) => string {
  const format = useMemo(() => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }), []);
  return (seconds) => (seconds === null ? "–" : format.format(seconds * 1000));
}
