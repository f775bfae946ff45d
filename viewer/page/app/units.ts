// Numbers with their units.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** The power of 1,024 of the unit that fits best. */
export function unitOf(bytes: number): number {
  let power = 0;
  for (let left = Math.abs(bytes); left >= 1024 && power < UNITS.length - 1; left /= 1024) power++;
  return power;
}

/** `1.50 GiB`, as the command prints it. */
export function bytes(value: number): string {
  const power = unitOf(value);
  return power === 0 ? `${count(value)} B` : `${(value / 1024 ** power).toFixed(2)} ${UNITS[power]!}`;
}

/** `1.5 GiB`: for axes and marks. */
export function shortBytes(value: number, power = unitOf(value)): string {
  const text = (value / 1024 ** power).toFixed(power === 0 ? 0 : 2);
  return `${text.includes(".") ? text.replace(/\.?0+$/, "") : text} ${UNITS[power]!}`;
}

/** `1.50 GiB (1,610,612,736 bytes)`. */
export function exactBytes(value: number): string {
  return value < 1024 ? `${count(value)} bytes` : `${bytes(value)} (${count(value)} bytes)`;
}

export function share(part: number, whole: number): string {
  if (whole <= 0) return "";
  const percent = (100 * part) / whole;
  return `${percent > 0 && percent < 0.1 ? "< 0.1" : percent.toFixed(1)} %`;
}

/** A duration, with as many digits as tell it from one of `resolution` nanoseconds more. */
export function duration(ns: number, resolution = Math.abs(ns) / 1000): string {
  const size = Math.abs(ns);
  const [scale, unit] = size < 1e3 ? [1, "ns"] as const : size < 1e6 ? [1e3, "µs"] as const
    : size < 1e9 ? [1e6, "ms"] as const : [1e9, "s"] as const;
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(resolution, 1e-9) / scale))));
  const text = (ns / scale).toFixed(ns === 0 ? 0 : digits);
  const number = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return `${unit === "s" ? number.replace(/^\d+/, (whole) => count(Number(whole))) : number} ${unit}`;
}

/** A round distance of ticks, so that at most `most` fit into `range`. */
export function tickStep(range: number, most: number, isBinary: boolean): number {
  const base = isBinary ? 1024 : 10;
  const wanted = range / Math.max(1, most);
  const power = base ** Math.floor(Math.log(Math.max(wanted, 1e-9)) / Math.log(base));
  const steps = isBinary ? [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 512, 1024] : [1, 2, 5, 10];
  return power * (steps.find((step) => step * power >= wanted) ?? base);
}
