// Where chunks come from: elements of the document and, in a page from a server, addresses beside it.

/** While the document is still parsed, missing chunks are looked for again after this time. */
const RETRY_MS = 20;
/** A request that failed is repeated once after this time. */
const AGAIN_MS = 500;

/** In front of the IDs of chunks that are not in the document, or undefined in a page that is one file. */
const besidePage = document.getElementById("header")?.dataset.chunks;

export const isServed = besidePage !== undefined;

export class ChunkSource {
  private missing = new Set<string>();

  constructor(
    private readonly give: (id: string, text: string | null) => void,
    private readonly fault: (text: string) => void,
  ) {
    document.addEventListener("DOMContentLoaded", () => {
      this.retry();
    });
  }

  /** Gives the chunk's text, at once or later; null if there is none. */
  need(id: string): void {
    const element = document.getElementById(id);
    // The element that is parsed last may be there in part.
    if (document.readyState === "loading" && !element?.nextSibling) {
      if (this.missing.size === 0) setTimeout(() => { this.retry(); }, RETRY_MS);
      this.missing.add(id);
    } else if (element === null && besidePage !== undefined) void this.load(besidePage, id, true);
    else this.give(id, element?.textContent ?? null);
  }

  private retry(): void {
    const { missing } = this;
    this.missing = new Set();
    for (const id of missing) this.need(id);
  }

  private async load(folder: string, id: string, isFirst: boolean): Promise<void> {
    try {
      // eslint-disable-next-line no-restricted-globals -- only in a page from a server, and its policy has only that
      const response = await fetch(folder + id);
      const text = await response.text();
      if (response.ok) this.give(id, text === "" ? null : text);
      else this.fault(`The server answered ${response.status} for ${id}.`);
    } catch {
      if (isFirst) setTimeout(() => { void this.load(folder, id, false); }, AGAIN_MS);
      else this.fault("The server does not answer: it has ended, or cannot be reached.");
    }
  }
}
