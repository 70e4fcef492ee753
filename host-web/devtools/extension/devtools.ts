// The page that the browser opens with its developer tools. It adds the panel and tells it when it is looked
// at; nothing else of the extension runs until then.

chrome.devtools.panels.create("Fanlight", "", "panel.html", (panel) => {
  let shown: Window | null = null;
  panel.onShown.addListener((view) => {
    shown = view;
    view.dispatchEvent(new Event("fanlight-shown"));
  });
  panel.onHidden.addListener(() => shown?.dispatchEvent(new Event("fanlight-hidden")));
});
