// A made-up training: parameters, optimizer state, and steps of forward, logits, backward and optimizer.

export interface Life {
  start: number;
  end: number | null;
  size: number;
  requested: number;
  stack: number;
  stream: number;
  address: number;
}

export interface Mark {
  moment: number;
  kind: number;
  name: string;
  bytes: number;
}

export interface Tape {
  moments: number;
  /** At each moment, the bytes from `FIRST_ADDRESS` to the end of the last block. */
  extents: number[];
  lives: Life[];
  marks: Mark[];
  /** Labels of the stacks. */
  labels: string[];
  categories: string[];
}

const MIB = 2 ** 20;
export const FIRST_ADDRESS = 0x7f00_0000_0000;

/** Numbers from 0 to 1 that depend on the seed alone. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function training(records: number, layers = 12, seed = 1): Tape {
  const chance = random(seed);
  const tape: Tape = { moments: 1, extents: [0], lives: [], marks: [], labels: [], categories: [] };
  const stackOf = (label: string, category: string): number => {
    const known = tape.labels.indexOf(label);
    if (known >= 0) return known;
    tape.categories.push(category);
    return tape.labels.push(label) - 1;
  };
  const placed: Life[] = [];
  const endOf = (life: Life | undefined): number => life === undefined ? FIRST_ADDRESS : life.address + life.size;
  /** The lowest gap that is large enough. */
  const place = (life: Life): void => {
    let i = 0;
    while (i < placed.length && placed[i]!.address - endOf(placed[i - 1]) < life.size) i++;
    life.address = endOf(placed[i - 1]);
    placed.splice(i, 0, life);
  };
  const alloc = (label: string, category: string, mib: number): Life => {
    const requested = Math.max(1, Math.round(mib * MIB));
    const size = Math.ceil(requested / 512) * 512;
    const life = { start: tape.moments++, end: null, size, requested, stack: stackOf(label, category),
      stream: chance() < 0.02 ? 1 : 0, address: 0 };
    place(life);
    tape.extents.push(endOf(placed.at(-1)) - FIRST_ADDRESS);
    tape.lives.push(life);
    return life;
  };
  const free = (life: Life): void => {
    life.end = tape.moments++;
    placed.splice(placed.indexOf(life), 1);
    tape.extents.push(endOf(placed.at(-1)) - FIRST_ADDRESS);
  };
  const mark = (kind: number, name: string, bytes = 0): void => {
    tape.marks.push({ moment: tape.moments - 1, kind, name, bytes });
  };
  const module = (layer: number, part: string): string => `model.layers.${layer}.${part}`;
  for (let layer = 0; layer < layers; layer++) {
    for (const part of ["attn.qkv", "attn.out", "mlp.up", "mlp.down"]) alloc(module(layer, part), "parameter", 18);
  }
  alloc("model.lm_head", "parameter", 150);
  for (let step = 0; tape.moments < records; step++) {
    mark(0, `step ${step}`);
    mark(1, "forward");
    const kept: Life[] = [];
    for (let layer = 0; layer < layers; layer++) {
      mark(2, `layers.${layer}`);
      for (const part of ["norm", "attn.qkv", "attn.softmax", "attn.out", "mlp.up", "mlp.act", "mlp.down"]) {
        kept.push(alloc(module(layer, `${part}.forward`), "activation", 6 + 14 * chance()));
        free(alloc(`workspace ${part}`, "temporary", 1 + 8 * chance()));
      }
      mark(3, `layers.${layer}`);
    }
    const logits = alloc("model.lm_head.logits", "activation", 620);
    const loss = alloc("loss.log_softmax", "activation", 620);
    mark(1, "backward");
    const upcast = alloc("loss.backward", "temporary", 620);
    free(loss);
    free(logits);
    const gradients: Life[] = [];
    for (let layer = layers - 1; layer >= 0; layer--) {
      for (let part = 0; part < 7; part++) {
        const temporary = alloc(module(layer, "backward"), "temporary", 4 + 10 * chance());
        free(kept.pop()!);
        free(temporary);
      }
      for (let part = 0; part < 4; part++) gradients.push(alloc(module(layer, "grad"), "gradient", 18));
    }
    free(upcast);
    mark(1, "optimizer");
    if (step === 0) {
      for (let state = 0; state < 8 * layers; state++) alloc(`adamw.${state % 2 ? "exp_avg_sq" : "exp_avg"}`,
        "optimizer state", 18);
    }
    for (let part = 0; part < 8; part++) free(alloc("adamw.step", "temporary", 30 + 60 * chance()));
    for (const gradient of gradients) free(gradient);
    if (step % 7 === 3) mark(4, "checkpoint saved");
    if (step === 5) mark(5, "", 3 * 2 ** 30);
  }
  return tape;
}
