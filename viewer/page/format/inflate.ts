// The text of a chunk's element, back to bytes: base64, then gzip.

import { ChunkError } from "./varint.ts";

/** What newer browsers have; others decode through `atob`. */
interface FromBase64 {
  fromBase64?: (text: string) => Uint8Array<ArrayBuffer>;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as FromBase64).fromBase64;
  if (native !== undefined) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function inflate(chunk: string, text: string): Promise<Uint8Array> {
  if (typeof DecompressionStream === "undefined") {
    throw new ChunkError(chunk, "this browser cannot decompress gzip: use one from 2023 or later");
  }
  let packed: Uint8Array<ArrayBuffer>;
  try {
    packed = fromBase64(text.trim());
  } catch {
    throw new ChunkError(chunk, "is not base64: the file is damaged or cut off");
  }
  try {
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new ChunkError(chunk, "is not a gzip stream: the file is damaged or cut off");
  }
}
