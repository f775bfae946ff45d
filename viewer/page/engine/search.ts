// Which groups a regular expression matches.

export interface Matches {
  query: string;
  labels: readonly string[];
  isMatch: Uint8Array;
  count: number;
  error: string;
}

export function search(query: string, labels: readonly string[]): Matches {
  const isMatch = new Uint8Array(labels.length);
  let count = 0;
  let error = "";
  try {
    const pattern = new RegExp(query, "i");
    labels.forEach((label, group) => {
      if (pattern.test(label)) {
        isMatch[group] = 1;
        count++;
      }
    });
  } catch (fault) {
    error = fault instanceof Error ? fault.message : String(fault);
  }
  return { query, labels, isMatch, count, error };
}
