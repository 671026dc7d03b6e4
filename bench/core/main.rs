//! The encoder alone, natively: nanoseconds per row and per value. `cargo bench --bench core`.
//!
//! Each line is the best of many passes over the same rows, so the figure is the code's and not the machine's mood.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod shapes;

use std::hint::black_box;
use std::time::{Duration, Instant};

use pgz_edge::encode::{Output, RowFormat};
use shapes::Shape;

const ROWS: i32 = 10_000;

fn main() {
    println!(
        "{:<18} {:>10} {:>10} {:>10}",
        "shape", "ns/row", "bytes/row", "MB/s"
    );
    for shape in shapes::shapes(ROWS)
        .iter()
        .chain(&shapes::type_shapes(ROWS))
    {
        report(shape);
    }
}

fn report(shape: &Shape) {
    let plan = shape.plan(RowFormat::Ndjson);
    let mut out = Output::default();
    let mut best = Duration::MAX;
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        out.clear(usize::MAX);
        let start = Instant::now();
        for row in &shape.rows {
            plan.encode_row(black_box(row), &mut out).unwrap();
        }
        best = best.min(start.elapsed());
        black_box(&out);
    }
    let rows = shape.rows.len() as f64;
    let nanoseconds = best.as_nanos() as f64;
    let bytes = out.len() as f64;
    println!(
        "{:<18} {:>10.1} {:>10.1} {:>10.0}",
        shape.name,
        nanoseconds / rows,
        bytes / rows,
        bytes / nanoseconds * 1000.0
    );
}
