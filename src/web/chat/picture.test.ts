import { expect, test } from "vitest";
import { isPicture, pictureOf } from "./picture.js";

const bytesOf = (text: string): Uint8Array => Uint8Array.from(text, (char) => char.charCodeAt(0));

test.each([
  ["\x89PNG\r\n\x1a\nrest", "image/png"],
  ["\xff\xd8\xff\xe0rest", "image/jpeg"],
  ["GIF89arest", "image/gif"],
  ["RIFF\n\0\0\0WEBPrest", "image/webp"],
])("%j is of type %s", (text, type) => {
  const address = pictureOf(bytesOf(text))!;
  expect(address).toBe(`data:${type};base64,${btoa(text)}`);
  expect(isPicture(address)).toBe(true);
});

test("a picture of any size keeps its bytes", () => {
  const text = `GIF89a${"\xff\0".repeat(50_000)}`;
  expect(pictureOf(bytesOf(text))).toBe(`data:image/gif;base64,${btoa(text)}`);
});

test.each(["", "RIFF1234WAVE", "<svg/>", "PNG", "\x89PN"])("%j is no picture", (text) => {
  expect(pictureOf(bytesOf(text))).toBeUndefined();
});

test.each([
  "https://example.com/a.png",
  "data:image/svg+xml;base64,AAAA",
  "data:text/html;base64,AAAA",
  'data:image/png;base64,AAAA" onerror="',
  " data:image/png;base64,AAAA",
])("%j is not shown as a picture", (address) => {
  expect(isPicture(address)).toBe(false);
});
