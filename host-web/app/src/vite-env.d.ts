// What the builder puts into scripts.

interface ImportMeta {
  readonly env: { readonly PROD: boolean };
}
