/** A button with a list below it. Escape, a press elsewhere, another page and a chosen link close the list. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface MenuProps {
  readonly label: ComponentChildren;
  /** Whether the open page is in the list. */
  readonly isCurrent?: boolean;
  readonly children: ComponentChildren;
}

export function Menu({ label, isCurrent = false, children }: MenuProps) {
  const details = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = () => details.current?.removeAttribute("open");
    const closeFromOutside = ({ target }: Event) => {
      if (!details.current!.contains(target as Node)) close();
    };
    addEventListener("hashchange", close);
    addEventListener("pointerdown", closeFromOutside);
    addEventListener("focusin", closeFromOutside);
    return () => {
      removeEventListener("hashchange", close);
      removeEventListener("pointerdown", closeFromOutside);
      removeEventListener("focusin", closeFromOutside);
    };
  }, []);
  const onKeyDown = ({ key }: KeyboardEvent) => {
    if (key !== "Escape" || details.current?.open !== true) return;
    details.current.open = false;
    details.current.querySelector("summary")!.focus();
  };
  return (
    <details class="menu" ref={details} onKeyDown={onKeyDown}>
      <summary class={isCurrent ? "current" : undefined}>{label}</summary>
      <div class="menu-list">{children}</div>
    </details>
  );
}
