// The palette of a request, kept until its grouping, search or theme changes.

import type { Grouping } from "../format/header.ts";
import { THEMES } from "./colours.ts";
import { Palette } from "./paint.ts";
import type { Found, Look } from "./protocol.ts";
import { type Matches, search } from "./search.ts";
import type { Tally } from "./tally.ts";

export class Palettes {
  private matches: Matches | null = null;
  private last: { key: string; labels: readonly string[]; palette: Palette } | null = null;

  choose(look: Look, labels: readonly string[], grouping: Grouping | undefined): Palette {
    const { lit, is_dark, device, query } = look;
    if (query === "") this.matches = null;
    else if (this.matches?.query !== query || this.matches.labels !== labels) this.matches = search(query, labels);
    const { matches } = this;
    const groups = grouping?.groups ?? 0;
    const key = [is_dark, device, look.grouping, groups, lit, query].join(" ");
    if (this.last?.key === key && this.last.labels === labels) return this.last.palette;
    const isMatch = matches !== null && matches.error === "" ? (group: number) => matches.isMatch[group] === 1 : null;
    const isLit = lit !== null ? (group: number) => group === lit : isMatch;
    const theme = is_dark ? THEMES.dark : THEMES.light;
    const palette = new Palette(theme, labels, groups, /categor/i.test(grouping?.name ?? ""), isLit);
    this.last = { key, labels, palette };
    return palette;
  }

  /** How many groups the search of the last request matches, and their bytes; null without one. */
  found(tally: Tally): Found | null {
    const { matches } = this;
    if (matches === null) return null;
    let bytes = 0;
    matches.isMatch.forEach((isMatch, group) => {
      if (isMatch === 1) bytes += tally.atPeak[group] ?? 0;
    });
    return { groups: matches.count, at_peak_bytes: bytes, error: matches.error };
  }
}
