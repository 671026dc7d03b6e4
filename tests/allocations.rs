//! No row allocates on the heap once the buffers have grown. The test counts allocations for every shape of the
//! benchmark, in the row formats.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../bench/core/shapes.rs"]
mod shapes;

use pgz_edge::encode::columns::Blocks;
use pgz_edge::encode::{Output, RowFormat};
use std::iter::empty;

#[test]
fn no_allocation_per_row() {
    const ROWS: i32 = 1000;
    for shape in shapes::shapes(ROWS)
        .iter()
        .chain(&shapes::type_shapes(ROWS))
    {
        for format in [RowFormat::Ndjson, RowFormat::Arrays, RowFormat::Columns] {
            let plan = shape.plan(format);
            let mut out = Output::default();
            let mut blocks = Blocks::default();
            let mut pass = || {
                out.clear(usize::MAX);
                for row in &shape.rows {
                    if plan.is_columns() {
                        let (_, encoded) =
                            plan.encode_values(row, &mut empty(), 0, &mut out, &mut blocks);
                        encoded.unwrap();
                    } else {
                        plan.encode_row(row, &mut out).unwrap();
                    }
                }
                if plan.is_columns() {
                    blocks.seal(&mut out, &[], usize::MAX);
                }
            };
            // The first pass lets the output grow to its final size.
            pass();
            let counted = allocation_counter::measure(pass);
            println!(
                "{}, {format:?}: {} allocations in {ROWS} rows",
                shape.name, counted.count_total
            );
            assert_eq!(counted.count_total, 0, "{}", shape.name);
        }
    }
}
