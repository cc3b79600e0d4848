/** Code points as sorted, disjoint ranges, both ends inclusive. */
export type CodePoints = readonly (readonly [from: number, to: number])[];

const LAST_CODE_POINT = 0x10ffff;

export function contains(points: CodePoints, code: number): boolean {
  return points.some(([from, to]) => from <= code && code <= to);
}

/** Returns the code points that are in any of the ranges, which may be in any order and overlap. */
export function unionOf(ranges: CodePoints): CodePoints {
  const joined: [number, number][] = [];
  for (const [from, to] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

export function complement(points: CodePoints): CodePoints {
  const gaps: [number, number][] = [];
  let next = 0;
  for (const [from, to] of points) {
    if (from > next) gaps.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= LAST_CODE_POINT) gaps.push([next, LAST_CODE_POINT]);
  return gaps;
}

export function without(points: CodePoints, removed: CodePoints): CodePoints {
  return complement(unionOf([...complement(points), ...removed]));
}
