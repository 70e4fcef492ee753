// Code to copy for pages that use the developer bridge. tests/browser/bridge.test.mjs runs it as it stands.

export interface Snippet {
  id: string;
  title: string;
  /** What it is for, in one sentence. */
  about: string;
  code: string;
}

/** The ask that all of them end with. */
const ASK = `const reply = await bridge.chat.completions.create({
  messages: [{ role: "user", content: "Why is the sky blue?" }],
  stream: true,
});
for await (const chunk of reply) document.body.append(chunk.choices[0].delta.content ?? "");`;

function indented(code: string): string {
  return code
    .split("\n")
    .map((line) => (line === "" ? line : `  ${line}`))
    .join("\n");
}

/** `page` is this page's address; `key` is shown as it is given. */
export function snippets(page: string, key: string): Snippet[] {
  const { origin } = new URL(page);
  const client = new URL("bridge-client.js", page).href;
  const same = `import { connectBridge } from "${client}";

const bridge = await connectBridge({ key: "${key}" });
${ASK}`;
  const frame = `<!doctype html>
<meta charset="utf-8">
<title>Fanlight in a frame</title>
<iframe id="fanlight" src="${page}" width="480" height="640" allow="clipboard-write"></iframe>
<script type="module">
  // A copy of ${client}
  import { connectBridge } from "./bridge-client.js";

  const { contentWindow } = document.getElementById("fanlight");
  const bridge = await connectBridge({
    key: "${key}",
    window: contentWindow,
    origin: "${origin}",
  });
  await bridge.ready();
${indented(ASK)}
</script>`;
  const whole = `import { connectBridge } from "${client}";

const { chat } = await connectBridge({ key: "${key}" });
const { choices, usage } = await chat.completions.create({
  messages: [
    { role: "system", content: "Answer in one sentence." },
    { role: "user", content: "Why is the sky blue?" },
  ],
  temperature: 0,
  max_tokens: 64,
});
document.body.append(choices[0].message.content, \` (\${usage.completion_tokens} tokens)\`);`;
  return [
    {
      id: "same",
      title: "A script of this origin",
      about: "For another page of this site, in a module script; the words appear as they come.",
      code: same,
    },
    {
      id: "frame",
      title: "A page that frames this one",
      about: "A whole page of another site. Add its origin above, and open the settings in the frame.",
      code: frame,
    },
    {
      id: "whole",
      title: "A call as to OpenAI",
      about: "The whole reply at once, with how it is to be chosen.",
      code: whole,
    },
  ];
}
