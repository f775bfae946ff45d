// The tiles of one picture, looked up once each.

import { BANDS_TILE_COLUMNS, type BandsTile, SERIES_TILE_COLUMNS, type SeriesTile } from "../format/columns.ts";
import type { Dataset } from "./dataset.ts";

/** Tiles that a level has at most: 2^32 moments in columns of 256. */
const TILES_MAX = 2 ** 15;

export class Tiles {
  private readonly seriesTiles = new Map<number, SeriesTile | null>();
  private readonly bandsTiles = new Map<number, BandsTile | null>();

  constructor(
    readonly data: Dataset,
    private readonly grouping: number,
  ) {}

  /** Asks for the tiles of a range of columns. */
  ask(level: number, first: number, last: number, isWithBands: boolean): void {
    const { data, grouping } = this;
    const each = (columns: number, ask: (tile: number) => void): void => {
      for (let tile = Math.floor(first / columns); tile <= Math.floor(last / columns); tile++) ask(tile);
    };
    each(SERIES_TILE_COLUMNS, (tile) => data.series(level, tile));
    if (isWithBands) each(BANDS_TILE_COLUMNS, (tile) => data.bands(grouping, level, tile));
  }

  /** The counters of a column's tile, null if they are not there. */
  series(level: number, column: number): SeriesTile | null {
    const number = Math.floor(column / SERIES_TILE_COLUMNS);
    const key = level * TILES_MAX + number;
    let tile = this.seriesTiles.get(key);
    if (tile === undefined) this.seriesTiles.set(key, tile = this.data.knownSeries(level, number));
    return tile;
  }

  bands(level: number, column: number): BandsTile | null {
    const number = Math.floor(column / BANDS_TILE_COLUMNS);
    const key = level * TILES_MAX + number;
    let tile = this.bandsTiles.get(key);
    if (tile === undefined) {
      this.bandsTiles.set(key, tile = this.data.knownBands(this.grouping, level, number));
    }
    return tile;
  }

  /** Whether the stack of a column is on its way: false if it is there or missing. */
  isWaiting(level: number, column: number): boolean {
    return this.bands(level, column) === null
      && this.data.bands(this.grouping, level, Math.floor(column / BANDS_TILE_COLUMNS)) === undefined;
  }
}
