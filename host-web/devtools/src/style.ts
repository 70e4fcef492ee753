// The look of the panel: two themes from one set of names, one column on a phone.

export const STYLE: string = `
:host {
  --ground: light-dark(#f6f5f2, #141517); --surface: light-dark(#ffffff, #1e2125);
  --line: light-dark(#e4e0d8, #33383f); --text: light-dark(#211f1b, #e9e7e2);
  --faint: light-dark(#615c53, #a8a49b); --accent: light-dark(#0b6357, #6fd3c0);
  --prompt: light-dark(#2868b8, #6fadf2); --plain: light-dark(#0b7a6b, #57c9b3);
  --tree: light-dark(#6a4fb3, #b39bf2); --measurement: light-dark(#8a8578, #8f8b82);
  --real: light-dark(#0b7a6b, #57c9b3); --real-soft: light-dark(#0b7a6b22, #57c9b322);
  --expected: light-dark(#b3541e, #f0a35c); --width: light-dark(#6a4fb3, #b39bf2);
  --width-soft: light-dark(#6a4fb318, #b39bf21c);
  --gap-idle: light-dark(#d3cec3, #464b53); --gap-prepare: light-dark(#2868b8, #6fadf2);
  --gap-compile: light-dark(#b3541e, #f0a35c); --gap-consumer: light-dark(#8f3f6d, #e592c0);
  --gap-rest: light-dark(#5b8a2a, #a3d070); --gap-host: light-dark(#a87a00, #e6c34f);
  --starved: light-dark(#b3261e, #ff8a7a); --quiet: light-dark(#eceae4, #2a2e33);
  --weights: light-dark(#0b7a6b, #57c9b3); --cache: light-dark(#2868b8, #6fadf2);
  --scratch: light-dark(#a87a00, #e6c34f); --streaming: light-dark(#6a4fb3, #b39bf2);
  --drafting: light-dark(#8f3f6d, #e592c0); --constants: light-dark(#8a8578, #8f8b82);
  --transfer: light-dark(#b3541e, #f0a35c); --frames: light-dark(#8f3f6d, #e592c0);
  --frames-soft: light-dark(#8f3f6d20, #e592c020);
  display: block; container-type: inline-size; box-sizing: border-box; background: var(--ground);
  color: var(--text); font: 13px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif;
  font-variant-numeric: tabular-nums;
}
:host([theme="light"]) { color-scheme: light; }
:host([theme="dark"]) { color-scheme: dark; }
:host([hidden]), [hidden] { display: none !important; }
*, *::before, *::after { box-sizing: border-box; }
h2, h3, p, dl, dd { margin: 0; }
.probe { position: absolute; visibility: hidden; }
.panel { display: grid; gap: 10px; padding: 12px; }
header, .scrub { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; }
header h2 { font-size: 15px; letter-spacing: -0.01em; }
.mode { display: inline-flex; gap: 6px; align-items: center; color: var(--faint); margin-inline-end: auto; }
.mode::before { content: ""; width: 8px; height: 8px; border-radius: 50%; background: var(--gap-idle); }
.mode.live::before { background: var(--real); }
button, select { font: inherit; color: inherit; min-height: 28px; padding: 2px 10px; cursor: pointer;
  border: 1px solid var(--line); border-radius: 7px; background: var(--surface); }
::slotted(button) { font: inherit; color: inherit; min-height: 28px; padding: 2px 10px; cursor: pointer;
  border: 1px solid var(--line); border-radius: 7px; background: var(--surface); }
button:hover:not(:disabled), select:hover { border-color: var(--accent); }
button:disabled { opacity: 0.5; cursor: default; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.scrub input { flex: 1 1 10rem; min-width: 6rem; accent-color: var(--accent); }
.scrub output { min-width: 6.5rem; text-align: end; color: var(--faint); }
.note { padding: 6px 10px; border-radius: 7px; border: 1px solid var(--line); background: var(--surface);
  overflow-wrap: anywhere; }
.note.bad { border-color: var(--starved); color: var(--starved); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: 10px; margin: 0; }
.tile { display: grid; padding: 8px 11px; border: 1px solid var(--line); border-radius: 9px;
  background: var(--surface); }
.tile dt { color: var(--faint); font-size: 12px; }
.tile dd { font-size: 20px; font-weight: 600; letter-spacing: -0.02em; line-height: 1.25;
  white-space: nowrap; }
.tile dd + dd { font-size: 12px; font-weight: 400; letter-spacing: 0; color: var(--faint); overflow: hidden;
  text-overflow: ellipsis; }
.cards { display: grid; grid-template-columns: minmax(0, 1fr); gap: 10px; }
.stack { display: grid; gap: 10px; align-content: start; min-width: 0;
  grid-template-columns: minmax(0, 1fr); }
.card { display: grid; gap: 8px; align-content: start; min-width: 0; padding: 10px 11px;
  grid-template-columns: minmax(0, 1fr);
  border: 1px solid var(--line); border-radius: 9px; background: var(--surface); }
.card > .head { display: flex; flex-wrap: wrap; gap: 2px 10px; align-items: baseline; }
.card h3 { font-size: 13px; font-weight: 600; }
.card .head p { color: var(--faint); font-size: 12px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 12px; color: var(--faint); font-size: 12px; }
.legend span { display: inline-flex; gap: 5px; align-items: center; }
.mark { display: inline-block; width: 9px; height: 9px; border-radius: 2px; background: var(--mark);
  flex: none; }
th .mark { margin-inline-end: 6px; }
.chart { position: relative; width: 100%; min-height: 60px; overflow: hidden; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; align-items: start; }
.dim > * { color: var(--faint); }
.dim .mark { opacity: 0.45; }
.timeline { cursor: crosshair; }
.told { min-height: 1.45em; color: var(--faint); font-size: 12px; overflow-wrap: anywhere; }
.uplot { position: relative; width: min-content; }
.u-wrap { position: relative; user-select: none; }
.u-over, .u-under { position: absolute; }
.u-under { overflow: hidden; }
.uplot canvas { display: block; position: relative; width: 100%; height: 100%; }
.u-axis, .u-select, .u-legend { position: absolute; pointer-events: none; }
.u-cursor-x { position: absolute; left: 0; top: 0; height: 100%; will-change: transform;
  border-inline-end: 1px dashed var(--faint); pointer-events: none; }
.u-off, .u-cursor-y, .u-cursor-pt { display: none; }
.parts { display: flex; height: 12px; border-radius: 4px; overflow: hidden; background: var(--quiet); }
.parts > span { flex: none; min-width: 0; }
.map { display: flex; height: 18px; border-radius: 4px; overflow: hidden; background: var(--quiet); }
.map > span { flex: 1 1 0; min-width: 0; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 12.5px; }
caption { text-align: start; color: var(--faint); font-size: 12px; padding-bottom: 2px; }
th, td { padding: 2px 8px 2px 0; text-align: end; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--faint); font-weight: 400; font-size: 12px; }
th:first-child { text-align: start; }
tbody th { font-weight: 400; }
td.text { white-space: normal; overflow-wrap: anywhere; text-align: start; }
details summary { cursor: pointer; color: var(--faint); font-size: 12px; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 12px; }
.facts dt { color: var(--faint); }
.facts dd { overflow-wrap: anywhere; }
textarea { width: 100%; min-height: 14rem; resize: vertical; font: 12px/1.4 ui-monospace, monospace;
  color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 7px;
  padding: 8px; }
.row { display: flex; flex-wrap: wrap; gap: 6px; }
.empty { padding: 2rem 1rem; text-align: center; color: var(--faint); }
@container (min-width: 46rem) {
  header { position: sticky; z-index: 2; top: 0; margin: -12px -12px -6px; padding: 12px 12px 6px;
    background: var(--ground); }
  .cards { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .wide, .stack:last-child { grid-column: 1 / -1; }
  .stack:last-child { grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
@container (min-width: 70rem) {
  .cards { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  .stack:last-child { grid-column: auto; grid-template-columns: minmax(0, 1fr); }
}
`;
