/** Text lengths in code points, the unit of OpenAI's `text_offset`. */
export function countCodePoints(text: string): number {
  let numCodePoints = text.length;
  for (let i = 0; i + 1 < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xd800 || unit > 0xdbff) continue;
    const next = text.charCodeAt(i + 1);
    if (next >= 0xdc00 && next <= 0xdfff) {
      numCodePoints--;
      i++;
    }
  }
  return numCodePoints;
}
