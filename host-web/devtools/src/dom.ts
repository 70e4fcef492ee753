// Elements of the panel, and changing them no more than needed.

type Child = Node | string;

/** An element with attributes and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Sets a text; one that is the same touches nothing. */
export function say(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute; one that is the same touches nothing. */
export function mark(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** A row of a table. */
export interface Row {
  cells: readonly string[];
  /** Marks it like its part of a chart. */
  colour?: string;
  hint?: string;
  /** It says nothing at the moment. */
  isDim?: boolean;
}

/** A table whose cells change. */
export class Table {
  readonly element: HTMLTableElement;
  private readonly body = h("tbody");

  constructor(caption: string, head: readonly string[]) {
    const cells = head.map((text) => h("th", { scope: "col" }, text));
    const lines = h("thead", {}, h("tr", {}, ...cells));
    this.element = h("table", {}, h("caption", {}, caption), lines, this.body);
  }

  /** Shows these rows; the first cell of each names it. */
  show(rows: readonly Row[]): void {
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach(({ cells, colour, hint, isDim }, at) => {
      const row = this.body.rows[at] ?? this.body.appendChild(this.row(cells.length, colour !== undefined));
      if (colour !== undefined) row.style.setProperty("--mark", `var(--${colour})`);
      if (hint !== undefined) row.title = hint;
      row.classList.toggle("dim", isDim === true);
      cells.forEach((text, column) => {
        const cell = row.cells[column];
        if (cell) say(cell.lastChild ?? cell, text);
      });
    });
  }

  private row(columns: number, isMarked: boolean): HTMLTableRowElement {
    const head = h("th", { scope: "row" });
    if (isMarked) head.append(h("span", { class: "mark", "aria-hidden": "true" }));
    head.append(h("span"));
    const cells = Array.from({ length: columns - 1 }, () => h("td", {}, h("span")));
    return h("tr", {}, head, ...cells);
  }
}

/** A bar of parts side by side, as wide as the largest whole; for those who see it, beside its table. */
export class Parts {
  readonly element = h("div", { class: "parts", "aria-hidden": "true" });

  /** Parts of `whole`, each in its colour. */
  show(parts: readonly { value: number; colour: string }[], whole: number): void {
    while (this.element.children.length > parts.length) this.element.lastElementChild?.remove();
    parts.forEach(({ value, colour }, at) => {
      const part = (this.element.children[at] ?? this.element.appendChild(h("span"))) as HTMLElement;
      const width = whole > 0 ? `${((100 * value) / whole).toFixed(2)}%` : "0%";
      if (part.style.width !== width) part.style.width = width;
      const fill = `var(--${colour})`;
      if (part.style.background !== fill) part.style.background = fill;
    });
  }
}
