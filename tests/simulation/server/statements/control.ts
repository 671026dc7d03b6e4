// Functions that return a row of a server's control file.
//
// Knows the columns that callers use. Must not know SQL.
import { SYSTEM, type Standing } from "../standing.ts";
import { int4, int8, type Value } from "../values.ts";
import type { Column } from "./statement.ts";

interface ControlFunction {
  readonly columns: readonly Column[];
  row(standing: Standing): readonly Value[];
}

const FUNCTIONS: Readonly<Record<string, ControlFunction>> = {
  pg_control_system: {
    columns: [{ name: "system_identifier", type: int8 }],
    row: () => [SYSTEM],
  },
  pg_control_checkpoint: {
    columns: [{ name: "timeline_id", type: int4 }],
    row: ({ restartTimeline }) => [restartTimeline],
  },
  pg_control_recovery: {
    columns: [{ name: "min_recovery_end_timeline", type: int4 }],
    row: ({ isStandby, restartTimeline }) => [isStandby ? restartTimeline : 0],
  },
};

export function controlFunction(name: string): ControlFunction | undefined {
  return Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : undefined;
}
