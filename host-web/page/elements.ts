// The elements of the page that scripts touch, each found once and by its type.

function find<E extends HTMLElement>(id: string, type: new () => E): E {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`the page has no ${type.name} #${id}`);
  return element;
}

export const elements = {
  adapter: find("adapter", HTMLElement),
  alert: find("alert", HTMLElement),
  alertTitle: find("alert-title", HTMLElement),
  alertText: find("alert-text", HTMLElement),
  alertRetry: find("alert-retry", HTMLButtonElement),
  picker: find("picker", HTMLElement),
  files: find("files", HTMLInputElement),
  loading: find("loading", HTMLElement),
  progress: find("progress", HTMLProgressElement),
  progressText: find("progress-text", HTMLElement),
  cancelLoad: find("cancel-load", HTMLButtonElement),
  card: find("card", HTMLElement),
  cardRows: find("card-rows", HTMLDListElement),
  log: find("log", HTMLElement),
  ask: find("ask", HTMLFormElement),
  question: find("question", HTMLTextAreaElement),
  send: find("send", HTMLButtonElement),
  stop: find("stop", HTMLButtonElement),
  settings: find("settings", HTMLDetailsElement),
  context: find("context", HTMLInputElement),
  tokens: find("tokens", HTMLInputElement),
  plain: find("plain", HTMLInputElement),
  forget: find("forget", HTMLButtonElement),
  verify: find("verify", HTMLButtonElement),
  verdict: find("verdict", HTMLElement),
};
