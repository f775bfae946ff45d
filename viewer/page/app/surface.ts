// Canvases in device pixels, drawn on in CSS pixels.

export const FONT = "11px system-ui, -apple-system, 'Segoe UI', sans-serif";

/** More device pixels than that are not worth their time. */
const RATIO_MAX = 2;

export function pixelRatio(): number {
  return Math.min(RATIO_MAX, Math.max(1, window.devicePixelRatio));
}

/** Clears a canvas at this size and returns its context. */
export function clear(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = pixelRatio();
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  return context;
}

/** More texts than a picture has. */
const WIDTHS_MAX = 4096;
const widths = new Map<string, number>();

/** The width of text in the font of all canvases. Measuring again for each picture would be megabytes of garbage. */
export function textWidth(context: CanvasRenderingContext2D, text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size >= WIDTHS_MAX) widths.clear();
    width = context.measureText(text).width;
    widths.set(text, width);
  }
  return width;
}

/** Draws text cut to a width, if at least a few letters of it fit. */
export function fitText(context: CanvasRenderingContext2D, text: string, x: number, y: number, width: number): boolean {
  if (width < 18) return false;
  if (textWidth(context, text) <= width) {
    context.fillText(text, x, y);
    return true;
  }
  let length = Math.min(text.length, Math.floor(width / 5));
  while (length > 2 && textWidth(context, `${text.slice(0, length)}…`) > width) length--;
  if (length <= 2) return false;
  context.fillText(`${text.slice(0, length)}…`, x, y);
  return true;
}
