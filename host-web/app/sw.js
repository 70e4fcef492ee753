// Keeps the page's own files, so that it opens without a network. Models are not its business: they lie in
// the origin's file system. The list and the version are filled in when the page is built.

const VERSION = "%VERSION%";
const FILES = [/* FILES */];
const CACHE = `fanlight-page-${VERSION}`;

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(CACHE)
      .then((cache) => cache.addAll(FILES))
      .then(() => self.skipWaiting()),
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

/** The page is asked of the network first, so that a new version is seen; its files never change. */
async function answer(request) {
  const cache = await caches.open(CACHE);
  if (request.mode === "navigate") {
    return await fetch(request).catch(async (error) => {
      const kept = await cache.match("./");
      if (kept) return kept;
      throw error;
    });
  }
  return (await cache.match(request, { ignoreSearch: true })) ?? (await fetch(request));
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const isOwn = request.url.startsWith(self.registration.scope) && request.method === "GET";
  const isFile =
    isOwn &&
    !request.headers.has("range") &&
    (request.mode === "navigate" ||
      FILES.some((file) => new URL(file, self.registration.scope).href === request.url));
  if (isFile) event.respondWith(answer(request));
});
