// Pointer and keys of the flame graph.

import type { FlameGraph } from "./flame.ts";
import type { Place } from "./float.ts";
import type { TabInput } from "./input.ts";
import type { View } from "./view.ts";

export class FlameInput implements TabInput {
  readonly tab = "flame";

  constructor(
    private readonly view: View,
    private readonly graph: FlameGraph,
  ) {
    const { root } = graph;
    const place = (event: MouseEvent): Place => {
      const box = root.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    root.addEventListener("pointermove", (event) => { graph.point(place(event)); });
    root.addEventListener("pointerleave", () => { graph.point(null); });
    root.addEventListener("click", (event) => {
      graph.point(place(event));
      graph.zoom();
    });
  }

  /** What a key does here, if anything. */
  action(event: KeyboardEvent): (() => void) | undefined {
    const { view, graph } = this;
    if (event.key === "0") return () => { view.setFlame({ zoom: [] }); };
    if (event.key === "i") return () => { view.setFlame({ is_inverted: !view.flame.is_inverted }); };
    const target = event.target as HTMLElement;
    if (target !== graph.root && target !== document.body) return undefined;
    const go = (to: Parameters<FlameGraph["go"]>[0]) => (): void => {
      graph.go(to);
      graph.announce();
    };
    const actions: Record<string, () => void> = {
      ArrowLeft: go("left"), ArrowRight: go("right"), ArrowUp: go("up"), ArrowDown: go("down"),
      Enter: () => { graph.zoom(); },
      Backspace: () => { view.setFlame({ zoom: view.flame.zoom.slice(0, -1) }); },
    };
    return actions[event.key];
  }
}
