// What passes through a simulated network: its messages for the timeline, and their states for the coverage.
//
// Knows bytes by link and direction. Must not know who sends them, or why.
import { Conversations, type Coverage } from "./coverage.ts";
import { Messages } from "./timeline.ts";
import type { World } from "./world.ts";

/** Returns the tap. `says` is called when a client has sent something. */
export function tapOf(world: World, coverage: Coverage | undefined, says: (link: number) => void) {
  const readers = new Map<string, Messages>();
  const conversations = coverage && new Conversations(coverage);
  return (link: number, direction: ">" | "<", bytes: Uint8Array) => {
    conversations?.read(link, direction, bytes);
    if (direction === ">") says(link);
    const who = `link ${link} ${direction}`;
    world.noteBytes(who, bytes, () => {
      let reader = readers.get(who);
      if (!reader) readers.set(who, (reader = new Messages(direction)));
      return reader.read(bytes);
    });
  };
}
