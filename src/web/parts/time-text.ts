/** Times on the visitor's own clock. */
import { useMemo } from "preact/hooks";

/** @param timeStyle "medium" includes seconds */
export function useTimeText(timeStyle: "short" | "medium" = "short"): (seconds: number | null) => string {
  const format = useMemo(() => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle }), [timeStyle]);
  return (seconds) => (seconds === null ? "–" : format.format(seconds * 1000));
}
