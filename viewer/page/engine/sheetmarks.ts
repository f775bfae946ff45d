// Tables of out-of-memory errors and of marks.

import { changeAt, type Ranges } from "../format/ranges.ts";
import { MARK, type Marks, type Names } from "../format/rest.ts";
import type { Clock } from "./clock.ts";
import { spansOf } from "./markspans.ts";
import type { Peaks } from "./peaks.ts";
import { type Column, numbers, type Sheet, texts } from "./sheet.ts";

/** The places of out-of-memory errors among the marks, those of a window. */
export function oomsOf({ kind, moment }: Marks, from: number, to: number): number[] {
  return Array.from(kind, (_, i) => i)
    .filter((i) => kind[i] === MARK.outOfMemory && moment[i]! >= from && moment[i]! < to);
}

/** `allocated` has the bytes of each error. */
export function oomSheet(marks: Marks, ooms: readonly number[], allocated: readonly number[], ranges: Ranges,
  hasClock: boolean): Sheet {
  const { reserved } = ranges;
  const moment = (row: number): number => marks.moment[ooms[row]!]!;
  const time = (row: number): number => marks.time[ooms[row]!]!;
  return {
    rows: ooms.length, sort: "moment", notes: [], moment,
    columns: [
      numbers("moment", "moment", "moment", moment, "Shows the address map at the error", { is_place: true }),
      ...(hasClock ? [numbers("time_ns", "time", "ns", time, "From the start of the recording")] : []),
      numbers("requested_bytes", "requested", "bytes", (row) => marks.bytes[ooms[row]!]!),
      numbers("allocated_bytes", "allocated", "bytes", (row) => allocated[row]!),
      numbers("reserved_bytes", "reserved", "bytes", (row) => reserved.bytes[changeAt(reserved, moment(row))] ?? 0),
    ],
  };
}

const KINDS = ["step", "phase", "range", "", "instant", "out of memory", "snapshot", "records lost", "pattern"];

/** Marks that are in the window, in part or whole. `peaks` is null where the run is too large for them. */
export function markSheet(marks: Marks, names: Names, clock: Clock | null, moments: number, from: number, to: number,
  peaks: Peaks | null): Sheet {
  const spans = spansOf(marks, moments, clock?.last_ns ?? 0)
    .filter(({ start, end }) => start < to && (end ?? start + 1) > from);
  const length = (row: number): number => (spans[row]!.end === null ? NaN : spans[row]!.end - spans[row]!.start);
  const duration = (row: number): number => (
    spans[row]!.end_ns === null ? NaN : spans[row]!.end_ns - spans[row]!.start_ns);
  const peak = Float64Array.from(spans, ({ start, end }) => peaks?.in(start, end ?? start + 1) ?? start);
  const columns: Column[] = [
    texts("kind", "kind", KINDS, (row) => spans[row]!.kind),
    texts("name", "name", names.marks, (row) => spans[row]!.name),
    numbers("start_moment", "start (moment)", "moment", (row) => spans[row]!.start),
    numbers("end_moment", "end (moment)", "moment", (row) => spans[row]!.end ?? NaN, "The moment behind its last"),
    numbers("moments", "moments", "moments", length),
  ];
  if (clock !== null) {
    columns.push(numbers("start_ns", "start (time)", "ns", (row) => spans[row]!.start_ns, "From the start"),
      numbers("duration_ns", "duration", "ns", duration));
  }
  if (peaks !== null) {
    columns.push(numbers("peak_bytes", "peak allocated", "bytes", (row) => peaks.allocated[peak[row]!]!,
      "The most allocated bytes at any of its moments"));
    columns.push(numbers("peak_moment", "peak (moment)", "moment", (row) => peak[row]!,
      "Shows the address map at its peak", { is_place: true }));
  }
  const notes = peaks === null && spans.length > 0 ? ["The run has too many allocations for the peaks of marks."] : [];
  return { rows: spans.length, sort: "start_moment", notes, columns, moment: (row) => peak[row]! };
}
