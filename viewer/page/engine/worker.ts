// The worker's own script: an engine behind messages.

import { Engine } from "./engine.ts";
import type { ToEngine } from "./protocol.ts";

interface WorkerScope {
  postMessage(message: unknown, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToEngine>) => void) | null;
}

const scope = self as unknown as WorkerScope;
const engine = new Engine((message, transfer) => {
  scope.postMessage(message, transfer ?? []);
});
scope.onmessage = (event) => {
  engine.receive(event.data);
};
