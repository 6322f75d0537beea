/**
 * Converts markdown to safe HTML. Answers are hostile: HTML in them is shown as text, pictures are shown as links
 * (loading a picture tells its server that somebody reads), and all output passes the sanitizer, whose result alone the
 * page's policy admits.
 */
import DOMPurify from "dompurify";
import { Marked, type Tokens } from "marked";
import { readMarkdown } from "./bounded-lexer.js";
import { highlight } from "./highlight.js";
import { mathHtml } from "./math.js";
import { type MathToken, mathSyntax } from "./math-syntax.js";

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (each) => ESCAPES[each]!);

const LINK = /^(https?:|mailto:)/i;

const marked = new Marked(mathSyntax, {
  gfm: true,
  breaks: true,
  hooks: { provideLexer: () => readMarkdown },
  extensions: [{ name: "math", renderer: (token) => renderMath(token as MathToken) }],
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escapeHtml(text),
    checkbox: ({ checked }: Tokens.Checkbox) => (checked ? "☑ " : "☐ "),
    image: ({ href, text }: Tokens.Image) => linkTo(href, escapeHtml(text || href)),
    link({ href, tokens }: Tokens.Link) {
      return linkTo(href, this.parser.parseInline(tokens));
    },
    code({ text, lang = "" }: Tokens.Code) {
      const language = /^[\w+#.-]{1,30}/.exec(lang)?.[0] ?? "";
      const shown = (language === "" ? undefined : highlight(text, language.toLowerCase())) ?? escapeHtml(text);
      const bar = `<div class="code-bar"><span>${escapeHtml(language || "text")}</span><button type="button" data-copy>Copy</button></div>`;
      return `<div class="code" dir="ltr">${bar}<pre tabindex="0"><code>${shown}</code></pre></div>`;
    },
    table({ header, rows }: Tokens.Table) {
      const cells = (row: readonly Tokens.TableCell[], tag: "td" | "th") =>
        row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join("");
      const body = rows.map((row) => `<tr>${cells(row, "td")}</tr>`).join("");
      return `<div class="table" tabindex="0"><table><thead><tr>${cells(header, "th")}</tr></thead><tbody>${body}</tbody></table></div>`;
    },
  },
});

/** Most characters of drawn formulas in one text; later formulas are shown as their source. */
const MOST_MATH_CHARACTERS = 20_000;
let numMathCharacters = 0;

function renderMath({ raw, source, isDisplay }: MathToken): string {
  numMathCharacters += source.length;
  const html = numMathCharacters > MOST_MATH_CHARACTERS ? undefined : mathHtml(source, isDisplay);
  if (html === undefined) return `<code>${escapeHtml(raw.trim())}</code>`;
  return isDisplay ? `<span class="formula" tabindex="0">${html}</span>` : html;
}

/** @param html content of the link, already safe */
function linkTo(href: string, html: string): string {
  if (!LINK.test(href)) return html;
  return `<a href="${escapeHtml(href)}" target="_blank" rel="noopener noreferrer">${html}</a>`;
}

const ALLOWED_TAGS =
  "a blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr li ol p pre span strong table tbody td th thead tr ul";
const ALLOWED_ATTR = "class data-copy dir href rel start tabindex target type";
/** Tags of drawn formulas. Answers cannot write them: HTML in an answer is shown as text. */
const MATH_TAGS =
  "math menclose mfrac mi mn mo mover mpadded mphantom mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover";
const MATH_ATTR =
  "accent accentunder columnalign columnlines columnspacing display displaystyle fence height linethickness lspace mathcolor mathvariant maxsize minsize notation rowlines rowspacing rspace scriptlevel separator stretchy voffset width";
const SANITIZER = {
  ALLOWED_TAGS: `${ALLOWED_TAGS} ${MATH_TAGS}`.split(" "),
  ALLOWED_ATTR: `${ALLOWED_ATTR} ${MATH_ATTR}`.split(" "),
  RETURN_TRUSTED_TYPE: true,
};

/** HTML before sanitising. */
export function htmlOf(text: string): string {
  numMathCharacters = 0;
  return marked.parse(text, { async: false });
}

/** @returns a value for `innerHTML`: where the browser has trusted types, an object that only the sanitizer can make */
export function markdownHtml(text: string): string {
  const html = htmlOf(text);
  return DOMPurify.sanitize(html, SANITIZER) as unknown as string;
}
