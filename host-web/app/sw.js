// Keeps the page's own files, so that it opens without a network. Models are not its business: they lie in
// the origin's file system. The list and the version are filled in when the page is built.

const VERSION = "%VERSION%";
const FILES = [/* FILES */];
const CACHE = `fanlight-page-${VERSION}`;
/** What the host offers: models to begin with. */
const CONFIG = "./config.json";

function placed(file) {
  return new URL(file, self.registration.scope).href;
}

self.addEventListener("install", (event) => {
  event.waitUntil(
    // A version that is in use in some tab goes on until that is closed: its files stay until then.
    caches.open(CACHE).then((cache) => cache.addAll(FILES)),
  );
});

self.addEventListener("activate", (event) => {
  const old = async () => {
    const names = await caches.keys();
    const stale = names.filter((name) => name.startsWith("fanlight-page-") && name !== CACHE);
    await Promise.all(stale.map((name) => caches.delete(name)));
    await self.clients.claim();
  };
  event.waitUntil(old());
});

/** From the network if there is one, else as it is kept under a name. */
async function fresh(request, cache, name) {
  try {
    const response = await fetch(request);
    // The page is kept with the version that its files belong to; what the host offers may change by itself.
    if (name === CONFIG && response.ok) await cache.put(name, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(name);
    if (kept) return kept;
    throw error;
  }
}

/** The page is asked of the network first, so that a new version is seen; its files never change. */
async function answer(request) {
  const cache = await caches.open(CACHE);
  if (request.mode === "navigate") return await fresh(request, cache, "./");
  if (request.url === placed(CONFIG)) return await fresh(request, cache, CONFIG);
  return (await cache.match(request, { ignoreSearch: true })) ?? (await fetch(request));
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const isOwn = request.url.startsWith(self.registration.scope) && request.method === "GET";
  const isFile =
    isOwn &&
    !request.headers.has("range") &&
    (request.mode === "navigate" || [CONFIG, ...FILES].some((file) => placed(file) === request.url));
  if (isFile) event.respondWith(answer(request));
});
