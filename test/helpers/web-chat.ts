/** What a visitor does in the chat of the app, and sees there. */
import type { Page } from "playwright-core";

export const lastTurn = (page: Page) => page.locator(".turn.assistant").last();
export const facts = (page: Page) => lastTurn(page).locator(".facts").innerText();
export const answerText = async (page: Page) => (await lastTurn(page).locator(".text").innerText()).trim();
export const offers = (page: Page) => lastTurn(page).locator(".offers button").allInnerTexts();

/** Waits for the answer's end. The page shows that it is busy in the frame after the one that begins it. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))");
  await page.locator("#send").waitFor();
}

export async function ask(page: Page, text: string): Promise<void> {
  await page.locator("#model", { hasText: /^(?!$)/ }).waitFor();
  await page.fill("#input", text);
  await page.press("#input", "Enter");
  await settled(page);
}

export async function press(page: Page, label: string): Promise<void> {
  await lastTurn(page).getByRole("button", { name: label, exact: true }).click();
  await settled(page);
}
