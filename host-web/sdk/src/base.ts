// Where relative addresses begin.

/** The address of the page, or of the script where this runs in a worker. */
export function baseUrl(): string {
  return globalThis.document?.baseURI ?? globalThis.location?.href ?? "about:blank";
}
