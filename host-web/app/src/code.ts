// Blocks of code get a heading with their language and a button that copies them.

/** How long a button says that it has copied. */
const COPIED_MS = 1500;

async function copy(button: HTMLButtonElement, text: string): Promise<void> {
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy it yourself";
  }
  setTimeout(() => {
    button.textContent = said;
  }, COPIED_MS);
}

/** Adds the headings. */
export function withCopyButtons<N extends ParentNode & Node>(root: N): N {
  for (const pre of root.querySelectorAll("pre")) {
    const code = pre.querySelector("code");
    const language = /language-([\w+#.-]+)/.exec(code?.className ?? "")?.[1] ?? "text";
    const block = document.createElement("div");
    block.className = "code";
    const head = document.createElement("div");
    head.className = "code-head";
    const name = document.createElement("span");
    name.textContent = language;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy the ${language === "text" ? "" : `${language} `}code`);
    button.addEventListener("click", () => void copy(button, pre.textContent ?? ""));
    head.append(name, button);
    pre.replaceWith(block);
    pre.tabIndex = 0;
    block.append(head, pre);
  }
  return root;
}
