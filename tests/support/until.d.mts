export const LONGEST: number;
export function pause(milliseconds: number): Promise<void>;
export function until(holds: () => boolean | Promise<boolean>, what?: string): Promise<void>;
export function inTime<T>(work: Promise<T>): Promise<T>;
