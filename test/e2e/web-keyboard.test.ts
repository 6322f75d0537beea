/**
 * Every page of a gateway's app by the keyboard alone: what can be pressed is reached, is seen to be reached, has a
 * name, and lets go again.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openPage } from "../helpers/browser.js";
import { makeKey, useAdminKey, useClientKey, useWebFleet } from "../helpers/web-fleet.js";

const web = useWebFleet((dataFolder) => {
  const reports = join(dataFolder, "reports");
  mkdirSync(reports);
  writeFileSync(join(reports, "plan.html"), "<p>plan</p>");
  return { reports, quality: { sample: "100%" }, conversations: {} };
});
const SLOW = { timeout: 120_000 };

/** Each page, and what it shows when its data is there. */
const PAGES = {
  "": "#input",
  dashboard: ".tile",
  requests: "tbody tr",
  models: "tbody tr",
  keys: "tbody tr",
  spend: "tbody tr",
  quality: "form, p",
  batches: "#batch-file",
  routing: "#canary-model",
  reports: "tbody tr",
} as const;

/** In the page: what a visitor can press or fill now, each with its place in the document. */
const INTERACTIVE = `(() => {
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
  const isShown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && e.tabIndex >= 0;
  // Of a group of radio buttons the keyboard reaches one; the arrows do the rest.
  const isReached = (e) => e.type !== "radio" || e.checked ||
    ![...document.getElementsByName(e.name)].some((other) => other.checked);
  globalThis.marked = all.filter((e) => isShown(e) && isReached(e));
  return globalThis.marked.map((e) => e.outerHTML.slice(0, 120));
})()`;

interface Stop {
  /** Its place in the list; −1: something else, such as the browser's own bar. */
  readonly place: number;
  readonly isVisible: boolean;
}

/** In the page: what has the focus, and whether it can be seen. */
const FOCUSED = `(() => {
  const e = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(e);
  const { width, height, top, left, bottom, right } = e.getBoundingClientRect();
  const isInView = width > 0 && height > 0 && bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
  return {
    place: globalThis.marked.indexOf(e),
    isVisible: isInView && outlineStyle !== "none" && parseFloat(outlineWidth) > 0,
  };
})()`;

/** Goes round the page until all has been reached, at most twice. @returns what each press of the key has led to */
async function walk(page: Page, key: "Tab" | "Shift+Tab", numMarked: number): Promise<readonly Stop[]> {
  const stops: Stop[] = [];
  const reached = new Set<number>();
  while (reached.size < numMarked && stops.length < 2 * numMarked + 4) {
    await page.keyboard.press(key);
    const stop = await page.evaluate<Stop>(FOCUSED);
    stops.push(stop);
    if (stop.place >= 0) reached.add(stop.place);
  }
  return stops;
}

/** Elements that a screen reader has nothing to say about. */
async function nameless(page: Page): Promise<readonly string[]> {
  const names: string[] = [];
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const ROLES = ["button", "link", "textbox", "combobox", "checkbox", "radio", "spinbutton", "DisclosureTriangle"];
  for (const { role, name, ignored } of nodes) {
    const kind = String(role?.value ?? "");
    if (!ignored && ROLES.includes(kind) && String(name?.value ?? "").trim() === "") names.push(kind);
  }
  await session.detach();
  return names;
}

test("every page: all that can be pressed is reached by Tab, seen, named, and let go", SLOW, async () => {
  const key = await makeKey(web, { name: "typist" });
  const body = JSON.stringify({ messages: [{ role: "user", content: "Hello!" }], max_tokens: 4 });
  const headers = { authorization: `Bearer ${key}` };
  await (await fetch(`${web.fleet.url}/v1/chat/completions`, { method: "POST", headers, body })).arrayBuffer();
  await using watched = await openPage(web.browser, `${web.fleet.url}/`);
  const { page, faults } = watched;
  await useClientKey(page, key);
  await page.goto(`${web.fleet.url}/#/keys`);
  await useAdminKey(page);
  for (const [path, content] of Object.entries(PAGES)) {
    await page.goto(`${web.fleet.url}/#/${path}`);
    // A page that is loaded begins at its beginning.
    await page.reload();
    await page.locator(`main :is(${content})`).first().waitFor();
    for (const all of await page.locator("main details:not([open]) > summary").all()) await all.click();
    await page.evaluate("document.activeElement.blur()");
    const marked = await page.evaluate<string[]>(INTERACTIVE);
    const stops = await walk(page, "Tab", marked.length);
    const reached = new Set(stops.map(({ place }) => place));
    expect(
      marked.filter((_, place) => !reached.has(place)),
      `${path}: not reached`,
    ).toEqual([]);
    const unseen = stops.filter(({ place, isVisible }) => place >= 0 && !isVisible).map(({ place }) => marked[place]);
    expect(unseen, `${path}: without visible focus`).toEqual([]);
    const back = new Set((await walk(page, "Shift+Tab", marked.length)).map(({ place }) => place));
    expect(
      marked.filter((_, place) => !back.has(place)),
      `${path}: not reached backwards`,
    ).toEqual([]);
    expect(await nameless(page), `${path}: without a name`).toEqual([]);
  }
  expect(faults).toEqual([]);
});

test("Escape closes the drawers of a narrow page and the form of a key, and gives the focus back", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/`, { width: 360, height: 740 });
  const { page, faults } = watched;
  await useClientKey(page, await makeKey(web, { name: "narrow" }));
  const hasFocus = (name: string) =>
    expect
      .poll(() => page.evaluate<string>("document.activeElement.id || document.activeElement.textContent"))
      .toBe(name);
  for (const [name, part] of [
    ["history", "New chat"],
    ["settings", "Model"],
  ] as const) {
    const inside = page.locator(`.${name}`).getByText(part, { exact: true });
    expect(await inside.isVisible()).toBe(false);
    await page.locator(`#opens-${name}`).focus();
    await page.keyboard.press("Enter");
    await inside.waitFor();
    await page.keyboard.press("Escape");
    await inside.waitFor({ state: "hidden" });
    await hasFocus(`opens-${name}`);
  }
  await page.locator("#opens-history").press("Enter");
  await page.getByRole("button", { name: "New chat" }).press("Enter");
  await page.locator(".history").waitFor({ state: "hidden" });
  await hasFocus("input");
  await page.getByRole("button", { name: "Sign in", exact: true }).focus();
  await page.keyboard.press("Enter");
  await hasFocus("key");
  await page.keyboard.press("Escape");
  await page.locator("#key-form").waitFor({ state: "detached" });
  await hasFocus("Sign in");
  expect(faults).toEqual([]);
});
