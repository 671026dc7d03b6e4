// Numbers that a seed repeats, the same on every runtime.

/** 0 to below `below` (xorshift, 32 bits). */
export function generator(seed: number): (below: number) => number {
  let state = (Math.imul(seed, 2654435761) ^ 0x9e3779b9) | 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}
