/**
 * How help fits the terminal: in a narrow one a description stands below its term, since beside it there is no room for
 * words.
 */
import { Help } from "commander";

const LEAST_WIDTH = 40;
const INDENT = 6;
/** Spaces before the term and behind it. */
const AROUND_TERM = 4;
const USUAL_WIDTH = 80;

export function helpWidth(
  { isTTY, columns }: { readonly isTTY?: boolean; readonly columns?: number } = process.stdout,
  given = process.env.COLUMNS,
): number {
  const width = isTTY === true ? columns : Number(given);
  return width !== undefined && width > 0 ? Math.max(LEAST_WIDTH, width) : USUAL_WIDTH;
}

class NarrowHelp extends Help {
  /** A description is wrapped in any width that there is. */
  override minWidthToWrap = LEAST_WIDTH - INDENT;

  override formatItem(term: string, termWidth: number, description: string, helper: Help): string {
    const width = this.helpWidth ?? USUAL_WIDTH;
    if (description === "" || width - termWidth - AROUND_TERM >= this.minWidthToWrap)
      return super.formatItem(term, termWidth, description, helper);
    const wrapped = helper.boxWrap(description, width - INDENT);
    return `  ${term}\n${wrapped.replace(/^/gm, " ".repeat(INDENT))}`;
  }
}

export const createHelp = (): Help => new NarrowHelp();
