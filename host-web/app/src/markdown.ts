// Markdown of a model, made harmless. Every character that the model wrote can be read afterwards: what looks
// like HTML is text, but for the few elements that only set type.

import DOMPurify from "dompurify";
import { Marked, type RendererObject, type TokenizerObject, type Tokens } from "marked";

/** Elements that a model may write as HTML; all of them only set type. */
const TYPESETTING = /^<(?:br ?\/?|\/?kbd|\/?su[bp])>/i;

/** A line that looks like HTML ends a paragraph in CommonMark; here it belongs to it. */
const HTML_LINE = /^\n {0,3}</;

/** What an escape keeps as it is: the borders of formulas, which readers recognise by their backslashes. */
const FORMULA_BORDER = /^\\[()[\]]/;

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** Cells of a line of a table, at most: an escaped bar and the outer bars divide nothing. */
function cells(line: string): number {
  const bars = line.trim().replace(/^\||(?<!\\)\|$/g, "").match(/(?<!\\)\|/g);
  return 1 + (bars?.length ?? 0);
}

const tokenizer: TokenizerObject = {
  html: () => undefined,
  // "[Name]: Ada" would vanish as the definition of a link.
  def: () => undefined,
  tag(source): Tokens.Tag | undefined {
    const raw = TYPESETTING.exec(source)?.[0];
    if (raw === undefined) return undefined;
    return { type: "html", raw, text: raw, inLink: false, inRawBlock: false, block: false };
  },
  escape(source): Tokens.Escape | undefined | false {
    if (!FORMULA_BORDER.test(source)) return false;
    const raw = source.slice(0, 2);
    return { type: "escape", raw, text: raw };
  },
  table(source): undefined | false {
    // A table whose rows have more cells than its heading would lose them: it stays text.
    const lines = source.split("\n\n", 1)[0]?.split("\n") ?? [];
    const width = cells(lines[1] ?? "");
    return lines.some((line) => cells(line) > width) ? undefined : false;
  },
  paragraph(source): Tokens.Paragraph | undefined {
    const rule = this.rules.block.paragraph;
    let text = rule.exec(source)?.[0];
    while (text !== undefined && HTML_LINE.test(source.slice(text.length))) {
      const next = rule.exec(source.slice(text.length + 1))?.[0];
      if (next === undefined) break;
      text += `\n${next}`;
    }
    if (text === undefined) return undefined;
    return { type: "paragraph", raw: text, text, tokens: this.lexer.inline(text) };
  },
};

/** Of classes only the language of code: any other would give a reply the looks of the page itself. */
const LANGUAGE = /^[\w+#.-]{1,40}$/;

const renderer: RendererObject = {
  code({ text, lang = "" }) {
    const isNamed = LANGUAGE.test(lang);
    // What stands behind the fence and names no language is a line of its own.
    const whole = isNamed || lang === "" ? text : `${lang}\n${text}`;
    return `<pre><code${isNamed ? ` class="language-${lang}"` : ""}>${escaped(whole)}\n</code></pre>`;
  },
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  // Nothing may load, so a picture is a link to it.
  image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
};

const marked = new Marked({ gfm: true, breaks: true, async: false, tokenizer, renderer });

/**
 * Elements that text needs. No images, forms, frames or styles: a reply may be hostile, and nothing may load.
 */
const TAGS = [
  ..."a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i kbd li ol p pre s strong sub sup".split(" "),
  ..."table tbody td th thead tr ul".split(" "),
];

DOMPurify.addHook("uponSanitizeAttribute", (element, attribute) => {
  if (attribute.attrName !== "class") return;
  const name = attribute.attrValue.replace(/^language-/, "");
  attribute.keepAttr = element.tagName === "CODE" && LANGUAGE.test(name);
});

/** Links leave the page, and say where they lead when their text does not. */
DOMPurify.addHook("afterSanitizeAttributes", (element) => {
  if (!(element instanceof HTMLAnchorElement)) return;
  element.setAttribute("target", "_blank");
  element.setAttribute("rel", "noopener noreferrer nofollow");
  const { host, protocol, pathname } = element;
  const place = protocol === "mailto:" ? pathname : host;
  if (place !== "" && !element.textContent.includes(place)) element.dataset["place"] = place;
});

/** Text as it is, line by line. */
function plain(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const paragraph = document.createElement("p");
  for (const [at, line] of text.split("\n").entries()) {
    if (at > 0) paragraph.append(document.createElement("br"));
    paragraph.append(line);
  }
  fragment.append(paragraph);
  return fragment;
}

/** Markdown as elements that can do no harm. */
export function rendered(text: string): DocumentFragment {
  let html: string;
  try {
    html = marked.parse(text) as string;
  } catch {
    // Thousands of quotes within quotes are deeper than the parser can go.
    return plain(text);
  }
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "start", "align", "class"],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    ADD_URI_SAFE_ATTR: ["start", "align", "class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

/**
 * Where the last block of a text begins that may still change: behind its last empty line outside of code.
 */
export function openBlock(text: string): number {
  let start = 0;
  let fence = "";
  let at = 0;
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? "";
    if (fence === "" && mark !== "") fence = mark;
    else if (fence !== "" && mark.startsWith(fence) && line.trim() === mark) fence = "";
    at += line.length + 1;
    // What is indented may belong to the list item before.
    const next = text.charAt(at);
    if (fence === "" && line.trim() === "" && next !== " " && next !== "\t" && next !== "") start = at;
  }
  return start;
}
