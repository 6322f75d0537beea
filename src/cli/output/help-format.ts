/**
 * Help for any terminal width: in a narrow terminal, a description is below its term, since it has no room beside it.
 */
import { Help } from "commander";

const LEAST_WIDTH = 40;
const INDENT = 6;
/** Spaces around the term. */
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
  /** Descriptions are wrapped at any width. */
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
