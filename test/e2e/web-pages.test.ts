/**
 * All pages of a gateway's app: keys made and revoked, spend, instances, the dashboard under load and over a kill,
 * small and large, light and dark. size: one fleet and one browser serve all pages, since starting them takes longer
 * than the tests.
 */
import { join } from "node:path";
import type { Page, Route } from "playwright-core";
import { expect, test, vi } from "vitest";
import { openPage, seriousFindings } from "../helpers/browser.js";
import { cases } from "../helpers/long.js";
import {
  chartOf,
  makeKey,
  openMorePage,
  screenshots,
  signOut,
  tileOf,
  useAdminKey,
  useClientKey,
  useWebFleet,
} from "../helpers/web-fleet.js";
import { writeReports } from "../helpers/web-reports.js";

/** Set by the start of the fleet. */
let reports = "";
const web = useWebFleet((dataFolder) => {
  reports = join(dataFolder, "reports");
  writeReports(reports);
  // None can keep to the first target; all keep to the second.
  return { slo: "ttft=0.001ms,tpot=100s", reports, quality: { sample: "100%" } };
});

const SLOW = { timeout: 90_000 };

const chat = (key: string, maxTokens = 16): Promise<Response> =>
  fetch(`${web.fleet.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ messages: [{ role: "user", content: "Tell me a story." }], max_tokens: maxTokens }),
  });

test("a key is made, works, shows its use, and is refused once it is revoked", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/keys`);
  const { page, faults } = watched;
  await useAdminKey(page);
  await page.getByLabel("Name", { exact: true }).fill("laptop");
  await page.fill("#key-requests_per_minute", "60");
  await page.fill("#key-budget", "5");
  await page.fill("#key-soft", "4");
  await page.fill("#key-tokens", "90000");
  await page.getByRole("button", { name: "Make a key" }).click();
  const key = await page.locator("#new-key").innerText();
  const row = page.locator("tbody tr", { hasText: "laptop" });
  await row.waitFor();
  const cells = async () => (await row.locator("td").allInnerTexts()).slice(3, 8);
  expect(await cells()).toEqual([
    "all",
    "0 of 60",
    "–",
    "–",
    "0.0000 of 5 dollars (alert at 4) a day\n0 of 90,000 tokens a day",
  ]);
  expect((await chat(key)).status).toBe(200);
  await page.reload();
  await row.waitFor();
  // Sixty requests a minute are one a second, so the first may count no more.
  const [, requests, , , budget] = await cells();
  expect(requests).toMatch(/^[01] of 60$/);
  expect(budget).toMatch(/^0\.\d{4} of 5 dollars \(alert at 4\) a day\n\d+ of 90,000 tokens a day$/);
  await row.getByRole("button", { name: "Revoke" }).click();
  await row.waitFor({ state: "detached" });
  expect((await chat(key)).status).toBe(401);
  expect(faults).toEqual([]);
});

test("an organisation and its team are made with limits, and deleted", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/keys`);
  const { page, faults } = watched;
  await useAdminKey(page);
  const make = async (id: string, tokens: string) => {
    await page.fill("#owner-id", id);
    await page.fill("#owner-tokens_per_minute", tokens);
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("cell", { name: id, exact: true }).waitFor();
  };
  await make("acme", "5000");
  await make("acme/search", "700");
  const row = page.locator("tbody tr", { has: page.getByRole("cell", { name: "acme/search", exact: true }) });
  expect((await row.locator("td").allInnerTexts()).slice(0, 6)).toEqual([
    "acme/search",
    "all",
    "–",
    "0 of 700",
    "–",
    "–",
  ]);
  await row.getByRole("button", { name: "Delete" }).click();
  await row.waitFor({ state: "detached" });
  expect(faults).toEqual([]);
});

test("what is refused on the page of keys stays in its form, to be mended", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/keys`);
  const { page, faults } = watched;
  await useAdminKey(page);
  await page.getByLabel("Name", { exact: true }).fill("mended");
  await page.fill("#key-team", "nobody/knows");
  await page.fill("#key-budget", "7");
  await page.getByRole("button", { name: "Make a key" }).click();
  await page.locator(".page > .error").waitFor();
  const entries = () => Promise.all(["name", "team", "budget"].map((name) => page.inputValue(`#key-${name}`)));
  expect(await entries()).toEqual(["mended", "nobody/knows", "7"]);
  await page.fill("#key-team", "");
  await page.getByRole("button", { name: "Make a key" }).click();
  await page.locator("tbody tr", { hasText: "mended" }).waitFor();
  expect(await entries()).toEqual(["", "", ""]);
  await page.fill("#owner-id", "nowhere/team");
  await page.fill("#owner-budget", "much");
  await page.getByRole("button", { name: "Make it" }).click();
  await page.locator("section > .error").waitFor();
  expect([await page.inputValue("#owner-id"), await page.inputValue("#owner-budget")]).toEqual([
    "nowhere/team",
    "much",
  ]);
  expect(faults).toEqual([]);
});

test("spend is shown by model, and the last requests", SLOW, async () => {
  const key = await makeKey(web, { name: "spender" });
  expect((await chat(key)).status).toBe(200);
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/spend`);
  const { page, faults } = watched;
  await useAdminKey(page);
  const row = page.locator("tbody tr", { hasText: "mill-base" }).first();
  await row.waitFor();
  const [, requests, prompt, , output, cost] = await row.locator("td").allInnerTexts();
  expect(Number(requests)).toBeGreaterThanOrEqual(1);
  expect(Number(output)).toBeGreaterThanOrEqual(16);
  expect(Number(cost)).toBeCloseTo((Number(prompt) + 2 * Number(output)) / 1e6, 9);
  await page.getByText("answered 200").first().waitFor();
  expect(faults).toEqual([]);
});

test("both answers of a comparison say what they cost", SLOW, async () => {
  const key = await makeKey(web, { name: "comparer" });
  await using watched = await openPage(web.browser, `${web.fleet.url}/`);
  const { page, faults } = watched;
  await useClientKey(page, key);
  await page.locator("#model", { hasText: "mill-base" }).waitFor();
  await page.getByLabel("Two models side by side").check();
  await page.getByLabel("Most tokens").fill("12");
  await page.fill("#input", "Tell me a story about a hen.");
  await page.press("#input", "Enter");
  const facts = page.locator(".turn.assistant .facts", { hasText: "$" });
  await facts.nth(1).waitFor();
  const shown = (await facts.allInnerTexts()).map((text) => Number(/· \$(0\.\d+)/.exec(text)?.[1]));
  const headers = { authorization: `Bearer ${key}` };
  const total = async () => {
    const usage = (await (await fetch(`${web.fleet.url}/v1/usage`, { headers })).json()) as {
      data: { cost: string }[];
    };
    return Number(usage.data[0]?.cost ?? 0);
  };
  await expect.poll(total).toBeCloseTo(shown[0]! + shown[1]!, 9);
  expect(Math.min(...shown)).toBeGreaterThan(0);
  expect(faults).toEqual([]);
});

test("the checks of sampled answers are shown, and those that fail", SLOW, async () => {
  const key = await makeKey(web, { name: "sampled" });
  // Cut by the limit, which is a fault.
  expect((await chat(key, 1)).status).toBe(200);
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/quality`);
  const { page, faults } = watched;
  await useAdminKey(page);
  const row = page.locator("tbody tr", { hasText: "length: cut by a limit of tokens" }).first();
  await vi.waitFor(async () => {
    await page.getByRole("button", { name: "Load again" }).click();
    await row.waitFor({ timeout: 1000 });
  }, SLOW.timeout);
  expect(await row.innerText()).toContain("Tell me a story.");
  expect(faults).toEqual([]);
});

test("two reports are compared, and the page of one opens without running its scripts", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/reports`);
  const { page, faults } = watched;
  await useAdminKey(page);
  await page.getByLabel("Compare before.json").check();
  await page.getByLabel("Compare after.json").check();
  const row = page.getByRole("region", { name: "Comparison" }).locator("tbody tr");
  await row.waitFor();
  expect(await row.locator("td").allInnerTexts()).toEqual(["ours, chat: output tokens/s", "10", "20", "2 ×", "–"]);
  const [opened] = await Promise.all([
    page.context().waitForEvent("page"),
    page.getByRole("link", { name: "Open after.json" }).click(),
  ]);
  await opened.getByText("Kept").waitFor();
  expect(await opened.title()).not.toBe("ran");
  expect(faults).toEqual([]);
});

test("an operator's form stays while a client's list of models is refused", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/dashboard`);
  const { page, faults } = watched;
  const key = page.getByLabel("Your key as an operator");
  let typed: Promise<void> | undefined;
  const answerLate = async (route: Route) => {
    typed ??= key.waitFor().then(() => key.fill("fleet-admin"));
    await typed;
    await route.continue();
  };
  await page.route("**/v1/models", answerLate);
  let numRefused = 0;
  page.on("response", (answer) => {
    if (answer.url().endsWith("/v1/models") && answer.status() === 401) numRefused++;
  });
  await page.goto(`${web.fleet.url}/#/models`);
  // The page asks for the list as whoever is signed in, and then as a client, whom it asks to sign in.
  await expect.poll(() => numRefused).toBeGreaterThan(1);
  // The page asks who is signed in before it asks anybody to sign in.
  await page.waitForResponse((answer) => answer.url().endsWith("/admin/instances"));
  expect(await key.inputValue()).toBe("fleet-admin");
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  await page.locator("#signed-in").waitFor();
  await page.unrouteAll({ behavior: "ignoreErrors" });
  expect(faults).toEqual([]);
});

test("an operator without a client's key sees the models, and is asked for one in the chat alone", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/models`);
  const { page, faults } = watched;
  await useAdminKey(page);
  const names = page.locator("table").first();
  await names.locator("tr", { hasText: "mill-base" }).filter({ hasText: "1 ready" }).waitFor();
  expect(await names.locator("tr", { hasText: "mill-base" }).innerText()).toMatch(/\d,\d{3}/);
  expect(await page.locator(".error").allInnerTexts()).toEqual([]);
  expect(await page.locator("#key-form").count()).toBe(0);
  await page.goto(`${web.fleet.url}/#/`);
  await page.getByLabel("API key", { exact: true }).waitFor();
  await page.goto(`${web.fleet.url}/#/models`);
  await names.locator("tr", { hasText: "mill-base" }).waitFor();
  expect(await page.locator("#key-form").count()).toBe(0);
  expect(faults).toEqual([]);
});

test("the dashboard follows a load", SLOW, async () => {
  const key = await makeKey(web, { name: "loader" });
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/dashboard`);
  const { page, faults } = watched;
  const tile = (name: string) => tileOf(page, name);
  await tile("Running").waitFor();
  let isOver = false;
  const client = async () => {
    while (!isOver) await chat(key, 400);
  };
  const load = Promise.all([client(), client(), client()]);
  try {
    const binding = page.getByRole("region", { name: "What binds now" });
    await binding.getByText(/of the steps' time/).waitFor();
    await vi.waitFor(async () => expect(await page.locator(".tile dd").first().innerText()).toMatch(/^[1-9]/), {
      timeout: 30_000,
      interval: 200,
    });
    for (const name of [
      "Step time for prompts",
      "Step time for answers",
      "Steps outside the kernels",
      "Resident memory",
    ]) {
      await vi.waitFor(async () => expect(await tile(name).innerText({ timeout: 1000 })).toMatch(/^[\d.,]*[1-9]/), {
        timeout: 30_000,
        interval: 200,
      });
    }
    await page.locator(".tile.missed", { hasText: "TTFT p95" }).getByText("ms, above 0.001").waitFor();
    expect(await tile("TPOT p95").innerText()).toContain("ms, target 100,000");
    expect(await page.locator(".tile.missed", { hasText: "TPOT" }).count()).toBe(0);
    for (const title of ["Step time", "Resident memory", "Tokens won", "KV memory given back"])
      await page
        .locator("figure", { has: page.getByText(title, { exact: true }) })
        .locator("canvas")
        .waitFor();
    await chartOf(page, "TTFT").getByText("target of p95").waitFor();
  } finally {
    isOver = true;
    await load;
  }
  expect(faults).toEqual([]);
});

test("the dashboard shows the figures of one instance and of one model, now and before", SLOW, async () => {
  const key = await makeKey(web, { name: "watched" });
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/dashboard`);
  const { page, faults } = watched;
  const tile = (name: string) => tileOf(page, name);
  const asks = (path: string, query: string) =>
    page.waitForRequest((request) => request.url().includes(`${path}?`) && request.url().includes(query));
  const choice = page.getByLabel("Figures of");
  await choice.waitFor();
  let isOver = false;
  const load = (async () => {
    while (!isOver) await chat(key, 100);
  })();
  try {
    const [[id, part], [model]] = [["mill-base-0", "instance=mill-base-0"], ["model=mill-base"]] as const;
    await Promise.all([asks("watch/live", part), choice.selectOption({ label: id })]);
    await vi.waitFor(async () => {
      for (const name of ["Answers", "TTFT p95", "TPOT p95"])
        expect(await tile(name).innerText({ timeout: 1000 })).toMatch(/^[\d.,]*[1-9]/);
    }, SLOW.timeout);
    await Promise.all([asks("watch/history", part), page.getByLabel("Hour").check()]);
    await chartOf(page, "TPOT").locator("canvas").waitFor();
    await page.screenshot({ path: join(screenshots, "dashboard-instance.png") });
    await Promise.all([asks("watch/history", model), choice.selectOption(model)]);
    await chartOf(page, "Tokens").locator("canvas").waitFor();
    const past = await fetch(`${web.fleet.url}/watch/history?${part}`);
    const { loads } = (await past.json()) as { loads: readonly { readonly tpot: { readonly p50?: number } }[] };
    expect(loads.some(({ tpot }) => (tpot.p50 ?? 0) > 0)).toBe(true);
  } finally {
    isOver = true;
    await load;
  }
  expect(faults).toEqual([]);
});

test("the last requests are shown with their parts, filtered, and opened by the keyboard", SLOW, async () => {
  const key = await makeKey(web, { name: "inspected" });
  const ask = (id: string, model: string) =>
    fetch(`${web.fleet.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "x-request-id": id },
      body: JSON.stringify({
        model,
        messages: [{ role: "user", content: "Tell me a story about a secret." }],
        max_tokens: 16,
      }),
    });
  expect((await ask("good-1", "mill-base")).status).toBe(200);
  const bad = { method: "POST", headers: { authorization: `Bearer ${key}`, "x-request-id": "bad-1" } };
  const refused = await fetch(`${web.fleet.url}/v1/chat/completions`, { ...bad, body: '{"messages": 3}' });
  expect(refused.status).toBe(400);
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/requests`);
  const { page, faults } = watched;
  await useAdminKey(page);
  const rows = page.locator("tbody tr");
  await rows.nth(1).waitFor();
  await page.getByLabel("Id").fill("good-1");
  await page.getByLabel("Id").press("Enter");
  await vi.waitFor(async () => expect(await rows.count()).toBe(1), { timeout: 10_000 });
  const cells = await rows.first().locator("td").allInnerTexts();
  expect(cells.slice(1, 4)).toEqual(["mill-base", "mill-base-0", "answered"]);
  expect(cells[5]).toMatch(/^16/);
  for (const cell of cells.slice(6, 9)) expect(cell).toMatch(/^[\d.,]+ ms$/);
  const bar = rows.first().locator("svg.parts");
  expect(await bar.getAttribute("aria-label")).toMatch(/policies .*choice of an instance .*prefill .*decode/);
  const widths = await bar.locator("rect").evaluateAll((all) => all.map((each) => Number(each.getAttribute("width"))));
  expect(widths.reduce((sum, width) => sum + width, 0)).toBeCloseTo(100, 3);
  await page.getByLabel("Id").focus();
  // The box, the table that scrolls, the row's button.
  for (let i = 0; i < 3; i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator(".facts-list", { hasText: "good-1" }).waitFor();
  await page.screenshot({ path: join(screenshots, "requests-open.png") });
  await page.getByLabel("Id").fill("");
  await page.getByLabel("Id").press("Enter");
  await page.getByLabel("Only failed ones").check();
  // A row that failed is there before the filter, too: until the others have gone.
  await vi.waitFor(async () => expect(await rows.filter({ hasNotText: "400" }).count()).toBe(0), { timeout: 10_000 });
  await rows.filter({ hasText: "answered 400" }).first().waitFor();
  await page.getByLabel("Took").selectOption("10000");
  await page.getByText("None of the last 1000 requests").waitFor();
  expect(faults).toEqual([]);
  const answer = await fetch(`${web.fleet.url}/watch/requests`, { headers: { authorization: "Bearer fleet-admin" } });
  expect(await answer.text()).not.toContain("secret");
});

/** Of each page, what is there only with its content. */
const PAGES = {
  "": ".turn.assistant .facts",
  dashboard: "canvas",
  requests: "tbody tr",
  models: ".state.ready",
  keys: "tbody tr",
  spend: "tbody tr",
  quality: "h2",
  batches: "#batch-file",
  routing: "#canary-model",
  caches: ".hint",
  alerts: ".hint",
  reports: "tbody tr",
} as const;
const SCREENS = [
  { name: "phone-dark", width: 360, height: 740, colorScheme: "dark" },
  { name: "phone-light", width: 360, height: 740, colorScheme: "light" },
  { name: "desktop-dark", width: 1280, height: 800, colorScheme: "dark" },
  { name: "desktop-light", width: 1280, height: 800, colorScheme: "light" },
  { name: "4k-dark", width: 3840, height: 2160, colorScheme: "dark" },
] as const;

/** What stands beyond the edge of the page, and in no frame that scrolls by itself. */
const overflow = (page: Page) =>
  page.evaluate(`(() => {
    const main = document.querySelector("main");
    const isOut = (part) => part.getBoundingClientRect().right > innerWidth + 1 && part.closest(".table") === null;
    const widest = [document.documentElement, main].filter((part) => part.scrollWidth > part.clientWidth);
    return [...widest, ...[...main.querySelectorAll("*")].filter(isOut)].map((part) => part.outerHTML.slice(0, 100));
  })()`);

test("on a phone, a table scrolls in its frame, and its cells stay short", SLOW, async () => {
  const key = await makeKey(web, { name: `a-name-of-many-parts-${"x".repeat(30)}` });
  expect((await chat(key)).status).toBe(200);
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/keys`, { width: 390, height: 844 });
  const { page, faults } = watched;
  await useAdminKey(page);
  for (const path of ["keys", "models", "requests", "spend"]) {
    await page.goto(`${web.fleet.url}/#/${path}`);
    await page.locator("main tbody td").first().waitFor();
    await page.waitForLoadState("networkidle");
    await page.screenshot({ path: join(screenshots, `${path}-phone-table.png`), fullPage: true });
    const { heights, widths } = await page.evaluate<{ heights: number[]; widths: number[][] }>(`(() => {
      const heights = [...document.querySelectorAll(".table tbody tr")].map((row) => row.clientHeight);
      const widths = [...document.querySelectorAll(".table")].map((frame) => [frame.scrollWidth, frame.clientWidth]);
      return { heights, widths };
    })()`);
    // Two lines at most.
    expect(Math.max(...heights), path).toBeLessThan(65);
    expect(Math.max(...widths.map(([inside]) => inside!)), path).toBeGreaterThan(390);
    expect(await overflow(page), path).toEqual([]);
    const last = page.locator(".table tbody tr").first().locator("td").last();
    await last.scrollIntoViewIfNeeded();
    const { x, width } = (await last.boundingBox())!;
    expect(x + width, path).toBeLessThanOrEqual(390);
  }
  expect(faults).toEqual([]);
});

test.each(SCREENS.slice(0, cases(1, SCREENS.length)))(
  "pages fit and everybody can use them: $name",
  SLOW,
  async ({ name, ...options }) => {
    const key = await makeKey(web, { name: "reader" });
    await using watched = await openPage(web.browser, `${web.fleet.url}/`, options);
    const { page, faults } = watched;
    await useClientKey(page, key);
    await page.locator("#model", { hasText: "mill-base" }).waitFor();
    await page.fill("#input", "Tell me a story about a fox.");
    await page.press("#input", "Enter");
    await page.locator(".facts", { hasText: "tokens/s" }).waitFor();
    await page.locator("#send").waitFor();
    const look = async (what: string): Promise<void> => {
      await page.screenshot({ path: join(screenshots, `${what}-${name}.png`) });
      expect(await seriousFindings(page), what).toEqual([]);
      expect(await overflow(page), what).toEqual([]);
    };
    // The first page for operators asks who is there; then all pages know.
    await page.goto(`${web.fleet.url}/#/keys`);
    await page.getByLabel("Your key as an operator").waitFor();
    await look("sign-in");
    await useAdminKey(page);
    for (const [path, content] of Object.entries(PAGES)) {
      // The chat's own address would begin another one.
      if (path === "") await page.getByRole("link", { name: "Chat" }).click();
      else await page.goto(`${web.fleet.url}/#/${path}`);
      await page.locator(`main ${content}`).first().waitFor();
      // The dashboard's stream never ends.
      if (path !== "dashboard") await page.waitForLoadState("networkidle");
      expect(await page.locator("#key-form").count(), path).toBe(0);
      await look(path || "chat");
    }
    expect(faults).toEqual([]);
  },
);

test("with two sign-ins the header has one row on a desktop, and two on a tablet and a phone", SLOW, async () => {
  const key = await makeKey(web, { name: "both" });
  await using watched = await openPage(web.browser, `${web.fleet.url}/`);
  const { page, faults } = watched;
  await useClientKey(page, key);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await useAdminKey(page);
  for (const width of [1280, 768, 360]) {
    await page.setViewportSize({ width, height: 800 });
    await page.getByRole("link", { name: "Keys" }).waitFor();
    const rows = await page.locator(".top > *").evaluateAll((all) => {
      type Box = { getBoundingClientRect(): { readonly bottom: number; readonly height: number } };
      const boxes = (all as unknown as Box[]).map((one) => one.getBoundingClientRect());
      return {
        tallest: Math.max(...boxes.map(({ height }) => height)),
        end: Math.max(...boxes.map((one) => one.bottom)),
      };
    });
    expect(rows.tallest, `${width}`).toBeLessThan(50);
    expect(rows.end, `${width}`).toBeLessThan(width === 1280 ? 56 : 100);
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth"), `${width}`).toBeLessThanOrEqual(0);
    await openMorePage(page, "Reports");
    await page.locator("nav summary", { hasText: "Reports" }).waitFor();
    await page.locator(".who summary").click();
    const entries = await page.locator(".who .menu-list .row").evaluateAll((all) => {
      type Box = { getBoundingClientRect(): { readonly left: number; readonly right: number } };
      return (all as unknown as Box[])
        .map((one) => one.getBoundingClientRect())
        .map(({ left, right }) => [left, right]);
    });
    expect(entries, `${width}`).toHaveLength(2);
    expect(Math.min(...entries.flat()), `${width}`).toBeGreaterThanOrEqual(0);
    expect(Math.max(...entries.flat()), `${width}`).toBeLessThanOrEqual(width);
    await page.keyboard.press("Escape");
    // What is beyond the edge is scrolled to.
    await page.getByRole("link", { name: "Keys" }).click();
  }
  await signOut(page, "client");
  await page.locator("#signed-in-client").waitFor({ state: "detached" });
  expect(faults).toEqual([]);
});

test("the keyboard alone reaches the pages, the message and the answer", SLOW, async () => {
  const key = await makeKey(web, { name: "typist" });
  await using watched = await openPage(web.browser, `${web.fleet.url}/`);
  const { page, faults } = watched;
  await useClientKey(page, key);
  await page.locator("#model", { hasText: "mill-base" }).waitFor();
  // What the form of the key had is gone with it; a page that is loaded begins at its beginning.
  await page.reload();
  await page.locator("#model", { hasText: "mill-base" }).waitFor();
  const focused = () => page.evaluate<string>("document.activeElement.id || document.activeElement.textContent");
  await expect.poll(focused).toBe("input");
  // Round the whole page, back to the message.
  const seen: string[] = [];
  for (let i = 0; i < 60 && seen.at(-1) !== "input"; i++) {
    await page.keyboard.press("Tab");
    seen.push(await focused());
  }
  expect(seen).toContain("Dashboard");
  expect(seen.at(-1)).toBe("input");
  await page.keyboard.type("Hello!");
  await page.keyboard.press("Enter");
  await page.locator(".facts", { hasText: "first token" }).waitFor();
  expect(faults).toEqual([]);
});
