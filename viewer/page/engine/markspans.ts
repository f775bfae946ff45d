// Marks with their ends: steps, phases, ranges and patterns last, the others are one moment.

import { MARK, type Marks } from "../format/rest.ts";

export interface MarkSpan {
  kind: number;
  name: number;
  start: number;
  /** Behind its last moment; null for a mark of one moment. */
  end: number | null;
  start_ns: number;
  end_ns: number | null;
}

/** All marks, by start. What is open at the end of the recording ends there, at `moments` and `last_ns`. */
export function spansOf(marks: Marks, moments: number, last_ns: number): MarkSpan[] {
  const spans: MarkSpan[] = [];
  const [steps, phases, ranges, patterns]: MarkSpan[][] = [[], [], [], []];
  const end = (open: MarkSpan[], at: number, moment: number, time: number): void => {
    for (const span of at < 0 ? [] : open.splice(at, 1)) [span.end, span.end_ns] = [moment, time];
  };
  marks.moment.forEach((moment, i) => {
    const [kind, name, time] = [marks.kind[i]!, marks.name[i]!, marks.time[i] ?? 0];
    const span: MarkSpan = { kind, name, start: moment, end: null, start_ns: time, end_ns: null };
    if (kind === MARK.rangeEnd || kind === MARK.patternEnd) {
      const open = kind === MARK.rangeEnd ? ranges! : patterns!;
      const same = open.findLastIndex((one) => one.name === name);
      end(open, same >= 0 ? same : open.length - 1, moment, time);
      return;
    }
    spans.push(span);
    // A phase belongs to the step in which it began.
    if (kind === MARK.step || kind === MARK.phase) end(phases!, phases!.length - 1, moment, time);
    if (kind === MARK.step) end(steps!, steps!.length - 1, moment, time);
    const open = new Map<number, MarkSpan[] | undefined>([[MARK.step, steps], [MARK.phase, phases],
      [MARK.rangeBegin, ranges], [MARK.patternBegin, patterns]]).get(kind);
    open?.push(span);
  });
  for (const span of [steps, phases, ranges, patterns].flatMap((open) => open ?? [])) {
    [span.end, span.end_ns] = [moments, last_ns];
  }
  return spans;
}
