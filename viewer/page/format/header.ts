// The header of the page: JSON, checked before anything is drawn from it.

export interface Level {
  column_moments: number;
  columns: number;
}

/** "envelope" is allocated bytes, those of private pools in envelopes. */
export type Quantity = "allocated" | "reserved" | "envelope";

export interface Grouping {
  name: string;
  quantity: Quantity;
  groups: number;
}

/** Whether each block is in a group. */
export function isOfBlocks({ quantity }: Grouping): boolean {
  return quantity !== "reserved";
}

export interface Peaks {
  allocated_bytes: number;
  allocated_moment: number;
  reserved_bytes: number;
  reserved_moment: number;
  active_bytes: number;
  requested_bytes: number;
  /** No policy can reserve less. */
  live_bytes: number;
  /** The most allocated bytes of default pools and envelopes of private ones. */
  enveloped_bytes: number;
}

export interface Device {
  run: string;
  device: number;
  name: string;
  records: number;
  moments: number;
  has_clock: boolean;
  start_ns: string;
  lost: number;
  left_out: number;
  ooms: number;
  capacity_bytes: number | null;
  levels: Level[];
  groupings: Grouping[];
  lives: { leaf_moments: number; height: number; count: number };
  time_step_moments: number;
  peaks: Peaks;
  facts: [string, string][];
  /** The names of its plots. */
  plots: string[];
}

export interface Header {
  version: number;
  producer: string;
  devices: Device[];
}

/** The version of docs/page-format.md that this page reads. */
const VERSION = 1;

const DEVICE_NUMBERS = ["device", "records", "moments", "lost", "left_out", "ooms", "time_step_moments"] as const;
const PEAK_NUMBERS = ["allocated_bytes", "allocated_moment", "reserved_bytes", "reserved_moment", "active_bytes",
  "requested_bytes", "live_bytes", "enveloped_bytes"] as const;

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function checkDevice(device: Device, name: string): void {
  const check = (ok: boolean, key: string): void => {
    if (!ok) throw new Error(`the header's ${name}.${key} is missing or malformed`);
  };
  for (const key of DEVICE_NUMBERS) check(isCount(device[key]), key);
  check(device.moments >= 1 && device.moments < 2 ** 32, "moments");
  check(device.capacity_bytes === null || isCount(device.capacity_bytes), "capacity_bytes");
  check(Array.isArray(device.levels), "levels");
  for (const level of device.levels) check(isCount(level.columns) && level.column_moments >= 1, "levels");
  check(Array.isArray(device.groupings), "groupings");
  for (const grouping of device.groupings) {
    check(typeof grouping.name === "string" && isCount(grouping.groups), "groupings");
  }
  check(typeof device.lives === "object" && device.lives.leaf_moments >= 1 && isCount(device.lives.height), "lives");
  check(typeof device.peaks === "object", "peaks");
  for (const key of PEAK_NUMBERS) check(isCount(device.peaks[key]), `peaks.${key}`);
  check(Array.isArray(device.facts), "facts");
  check(Array.isArray(device.plots), "plots");
}

/** Reads the header, or throws an error that names the key which is wrong. */
export function parseHeader(text: string): Header {
  let header: Header;
  try {
    header = JSON.parse(text) as Header;
  } catch {
    throw new Error("the header is not JSON: the file is damaged or cut off");
  }
  if (header.version !== VERSION) {
    throw new Error(`the page has data of version ${String(header.version)}; this viewer reads version ${VERSION}`);
  }
  if (!Array.isArray(header.devices)) throw new Error("the header has no devices");
  header.devices.forEach((device, place) => {
    checkDevice(device, `devices[${place}]`);
  });
  return header;
}
