// Frames of Python stacks.

/** Frames of PyTorch and of Python itself, seldom the cause of an allocation's size. */
const INTERNAL = /(^|\/)torch\/|(site|dist)-packages\/|\/lib\/python\d|^<frozen|^\?$|\.so(\.|$)|^(at|c10|aten)::/;

export function isInternalFile(file: string): boolean {
  return file === "" || INTERNAL.test(file);
}
