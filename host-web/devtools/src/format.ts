// Numbers as text, with their units.

/** A time, from microseconds. */
export function time(us: number): string {
  if (us >= 60e6) return `${trimmed((us / 60e6).toFixed(1))} min`;
  if (us >= 1e6) return `${trimmed((us / 1e6).toFixed(us >= 10e6 ? 1 : 2))} s`;
  if (us >= 1000) return `${(us / 1000).toFixed(us >= 100_000 ? 0 : 1)} ms`;
  return `${Math.round(us)} µs`;
}

/** Without a fraction of zeros. */
function trimmed(digits: string): string {
  return digits.replace(/\.0+$/, "");
}

/** A size, from bytes. */
export function size(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** A part of a whole; a dash where there is no whole. */
export function share(part: number, whole: number): string {
  if (!(whole > 0)) return "–";
  const percent = (100 * part) / whole;
  return `${percent.toFixed(percent > 0 && percent < 10 ? 1 : 0)} %`;
}

export function whole(count: number): string {
  return Math.round(count).toLocaleString("en");
}

/** A number with as many digits as say something. */
export function number(value: number): string {
  if (value >= 100 || value === 0) return whole(value);
  return trimmed(value.toFixed(value >= 10 ? 1 : 2));
}
