// A flame graph's tree: bytes by path, and the rectangles of it that are wide enough to see.

/** What a path of frames has. `bytes` of a difference may be below 0. */
export interface Amount {
  bytes: number;
  blocks: number;
}

/** A node and its width in pixels. */
export interface Box {
  node: number;
  depth: number;
  x0: number;
  x1: number;
}

/** Rectangles below this width are left out and counted. */
const NARROW_PIXELS = 1;

export class FlameTree {
  /** Of each node: its frame, its parent (the root's is itself), and the sums of all paths through it. */
  readonly frame: number[] = [-1];
  readonly parent: number[] = [0];
  readonly bytes: number[] = [0];
  readonly blocks: number[] = [0];
  private readonly byFrame = [new Map<number, number>()];
  private order: number[][] = [];

  /** Adds what a path has. Bytes are not negative: a difference is two trees under one root. */
  add(path: readonly number[], { bytes, blocks }: Amount): void {
    let node = 0;
    this.count(node, bytes, blocks);
    for (const frame of path) {
      node = this.child(node, frame) ?? this.grow(node, frame);
      this.count(node, bytes, blocks);
    }
    this.order = [];
  }

  child(node: number, frame: number): number | undefined {
    return this.byFrame[node]!.get(frame);
  }

  private count(node: number, bytes: number, blocks: number): void {
    this.bytes[node]! += bytes;
    this.blocks[node]! += blocks;
  }

  private grow(node: number, frame: number): number {
    const made = this.frame.length;
    this.frame.push(frame);
    this.parent.push(node);
    this.bytes.push(0);
    this.blocks.push(0);
    this.byFrame.push(new Map<number, number>());
    this.byFrame[node]!.set(frame, made);
    return made;
  }

  /** The children of a node, those with the most bytes first. */
  children(node: number): readonly number[] {
    return this.order[node] ??= [...this.byFrame[node]!.values()].sort((a, b) => (
      this.bytes[b]! - this.bytes[a]! || this.frame[a]! - this.frame[b]!));
  }

  /** The node at the end of a path, or the last one of it that the tree has. */
  find(path: readonly number[]): number {
    let node = 0;
    for (const frame of path) {
      const next = this.child(node, frame);
      if (next === undefined) break;
      node = next;
    }
    return node;
  }

  /** The rectangles below `root` at this width, its ancestors above it at full width, and how many are too narrow. */
  layOut(root: number, width: number): { boxes: Box[]; narrow: number } {
    const boxes: Box[] = [];
    const above: number[] = [];
    for (let node = root; node !== 0; node = this.parent[node]!) above.unshift(this.parent[node]!);
    above.forEach((node, depth) => boxes.push({ node, depth, x0: 0, x1: width }));
    let narrow = 0;
    const open: Box[] = [{ node: root, depth: above.length, x0: 0, x1: width }];
    for (let box = open.pop(); box !== undefined; box = open.pop()) {
      boxes.push(box);
      const scale = this.bytes[box.node]! > 0 ? (box.x1 - box.x0) / this.bytes[box.node]! : 0;
      let x = box.x0;
      for (const node of this.children(box.node)) {
        const next = x + this.bytes[node]! * scale;
        if (next - x >= NARROW_PIXELS) open.push({ node, depth: box.depth + 1, x0: x, x1: next });
        else narrow++;
        x = next;
      }
    }
    return { boxes, narrow };
  }

  /** Bytes of the highest nodes that match, and how many match. */
  found(isMatch: (frame: number) => boolean): Amount {
    const sum: Amount = { bytes: 0, blocks: 0 };
    const open: [number, boolean][] = [[0, false]];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [node, isBelow] = next;
      const isHit = node !== 0 && isMatch(this.frame[node]!);
      if (isHit && !isBelow) {
        sum.bytes += this.bytes[node]!;
        sum.blocks += this.blocks[node]!;
      }
      for (const child of this.children(node)) open.push([child, isBelow || isHit]);
    }
    return sum;
  }
}
