// Pseudo-random numbers from a seed, the same on every runtime.

/** Returns numbers from 0 to below `below` (xorshift, 32 bits). */
export function generator(seed: number): (below: number) => number {
  let state = (Math.imul(seed, 2654435761) ^ 0x9e3779b9) | 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}
