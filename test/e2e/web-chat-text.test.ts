/** How the app shows the text of answers: mathematics, and texts that are hard to read. */
import { expect, test } from "vitest";
import { openPage, seriousFindings, useBrowser } from "../helpers/browser.js";
import { delta, events, serveAnswers, whole } from "../helpers/canned-answers.js";
import { ask, lastTurn } from "../helpers/web-chat.js";

const started = useBrowser();

const SLOW = { timeout: 60_000 };

test(
  "mathematics is drawn, what is wrong is shown as its source, and what draws it is loaded for it",
  SLOW,
  async () => {
    const formulas = [
      "Then \\(x_1^2 \\le \\frac{a}{b}\\).",
      "\\[\n\\begin{aligned} a &= b \\\\\n- c &= d \\end{aligned}\n\\]",
      "A price of $5 or $6, and $e^{i\\pi} = -1$.",
      "Wrong: \\(\\frac{a\\).",
    ];
    await using server = await serveAnswers(whole("Hello, \\*you\\*."), whole(formulas.join("\n\n")));
    await using watched = await openPage(started.browser, server.url);
    const { page, faults } = watched;
    const loaded: string[] = [];
    page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
    const isLoaded = () => loaded.some((path) => path.startsWith("/app/katex-"));
    await ask(page, "Hello");
    expect(isLoaded()).toBe(false);
    await ask(page, "Calculate");
    const answer = lastTurn(page);
    await answer.locator("math").nth(2).waitFor();
    expect(isLoaded()).toBe(true);
    expect(await answer.locator("math").count()).toBe(3);
    expect(await answer.locator("math mfrac").count()).toBe(1);
    expect(await answer.locator('.formula math[display="block"] mtr').count()).toBe(2);
    expect(await answer.innerText()).toContain("A price of $5 or $6, and");
    expect(await answer.locator("code").allInnerTexts()).toEqual(["\\(\\frac{a\\)"]);
    expect(await answer.innerText()).not.toContain("\\pi");
    expect(await seriousFindings(page)).toEqual([]);
    expect(faults).toEqual([]);
  },
);

/** What the library would load, link, style, or take long for. */
const HOSTILE_MATH = [
  "\\href{javascript:alert(1)}{x}",
  "\\includegraphics{http://192.0.2.1/x.png}",
  "\\htmlStyle{color:red}{x}\\htmlData{a=b}{y}",
  "\\text{<img src=x onerror=alert(1)>}",
  "x</annotation><img src=x onerror=alert(1)>",
  `\\def\\a{${"x".repeat(2000)}}${"\\a".repeat(400)}`,
  `${"\\sqrt{".repeat(400)}x${"}".repeat(400)}`,
  `${"{".repeat(1400)}${"}".repeat(1400)}`,
  "\\rule{1000em}{1000em}\\hspace{-1000em}x\\raisebox{500em}{y}",
];

test("hostile mathematics runs and loads nothing, and stays within its answer", SLOW, async () => {
  await using server = await serveAnswers(whole(HOSTILE_MATH.map((each) => `\\[${each}\\]`).join("\n\n")));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await ask(page, "Calculate");
  const answer = lastTurn(page);
  await answer.locator("math").first().waitFor();
  const forbidden = ":is(script, img, svg, style, annotation, [style], [href], [id], [onerror])";
  expect(await answer.locator(`.text ${forbidden}`).count()).toBe(0);
  expect(await answer.locator("code", { hasText: "\\def" }).count()).toBe(1);
  expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
  await page.waitForTimeout(200);
  expect(faults).toEqual([]);
});

/** Each kept the page busy for seconds with every token. */
const HARD_TEXTS = [`a${" ".repeat(20_000)}b`, "*a".repeat(20_000), `${"a.".repeat(20_000)}@`, ">".repeat(20_000)];

test("the page goes on while texts stream that are hard to read", SLOW, async () => {
  const half = (text: string) => [text.slice(0, text.length / 2), text.slice(text.length / 2)];
  const parts = HARD_TEXTS.flatMap((text) => [...half(text), "\n\n"]);
  await using server = await serveAnswers(events(...parts.map((content) => delta({ content })), delta({}, "stop")));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await page.evaluate(`
    globalThis.longestMs = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) longestMs = Math.max(longestMs, duration);
    }).observe({ type: "longtask" });
  `);
  await ask(page, "Go");
  expect((await lastTurn(page).locator(".text").innerText()).length).toBeGreaterThan(80_000);
  expect(await page.evaluate("longestMs")).toBeLessThan(1500);
  expect(faults).toEqual([]);
});
