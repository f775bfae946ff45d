// The engine's script, which is on the page once: a worker runs its text, and the page runs it where none can start.

import { Engine } from "./engine.ts";
import type { FromEngine, ToEngine } from "./protocol.ts";

/** An engine whose messages go to `post`. */
type MakeEngine = (post: (message: FromEngine, transfer?: Transferable[]) => void) => Pick<Engine, "receive">;

declare global {
  interface Window {
    vramtapeEngine?: MakeEngine;
  }
}

interface WorkerScope {
  postMessage(message: unknown, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToEngine>) => void) | null;
}

if (typeof document === "undefined") {
  const scope = self as unknown as WorkerScope;
  const engine = new Engine((message, transfer) => {
    scope.postMessage(message, transfer ?? []);
  });
  scope.onmessage = (event) => {
    engine.receive(event.data);
  };
} else window.vramtapeEngine = (post) => new Engine(post);
