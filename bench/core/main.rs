//! The encoder alone, natively: nanoseconds per row of each shape and per value of each type, the speed of the escape
//! scan, allocations per row. `cargo bench --bench core` prints a line of JSON per figure; `make bench CASE=core` makes
//! a table of them.
//!
//! `cargo bench --bench core -- --messages FOLDER` measures nothing and writes the rows as messages, for wasm.mjs.
//!
//! A figure is the median of nine trials, with the best and the worst. A trial is the median of its passes over the
//! same rows.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod shapes;

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use pgz_edge::encode::{Output, Plan, RowFormat};
use shapes::Shape;

const ROWS: i32 = 10_000;
const TRIALS: usize = 9;
const TRIAL: Duration = Duration::from_millis(30);

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--messages");
    if let (Some(_), Some(folder)) = (arguments.next(), arguments.next()) {
        return write_messages(Path::new(&folder));
    }
    for shape in shapes::shapes(ROWS) {
        per_row(&shape, shape.name);
    }
    for shape in shapes::type_shapes(ROWS) {
        per_row(&shape, &format!("type {}", shape.name));
    }
    for shape in shapes::scan_shapes(100) {
        scan(&shape);
    }
}

fn write_messages(folder: &Path) {
    for shape in shapes::shapes(ROWS) {
        std::fs::write(folder.join(shape.name), shape.messages()).unwrap();
    }
    for shape in shapes::type_shapes(ROWS) {
        std::fs::write(
            folder.join(format!("type {}", shape.name)),
            shape.messages(),
        )
        .unwrap();
    }
}

fn per_row(shape: &Shape, name: &str) {
    let rows = shape.rows.len() as f64;
    let pass = Pass::new(shape);
    let bytes = pass.bytes;
    let (allocations, trials) = pass.measure();
    let samples: Vec<f64> = trials.iter().map(|ns| ns / rows).collect();
    print(name, "ns_per_row", "ns", &samples);
    let samples: Vec<f64> = trials.iter().map(|ns| bytes / ns * 1000.0).collect();
    print(name, "mb_per_s", "MB/s", &samples);
    print(name, "allocs_per_row", "count", &[allocations / rows]);
}

/// One long text per row, so that all time is scanning and copying. In megabytes of input.
fn scan(shape: &Shape) {
    let bytes: usize = shape.rows.iter().map(Vec::len).sum();
    let (_, trials) = Pass::new(shape).measure();
    let samples: Vec<f64> = trials.iter().map(|ns| bytes as f64 / ns * 1000.0).collect();
    print(shape.name, "mb_per_s", "MB/s", &samples);
}

/// Encodes all rows of a shape into one buffer that already has its size.
struct Pass<'a> {
    shape: &'a Shape,
    plan: Plan,
    out: Output,
    bytes: f64,
}

impl<'a> Pass<'a> {
    fn new(shape: &'a Shape) -> Pass<'a> {
        let plan = shape.plan(RowFormat::Ndjson);
        let mut pass = Pass {
            shape,
            plan,
            out: Output::default(),
            bytes: 0.0,
        };
        pass.run();
        pass.bytes = pass.out.len() as f64;
        pass.check();
        pass
    }

    fn run(&mut self) {
        self.out.clear(usize::MAX);
        for row in &self.shape.rows {
            self.plan.encode_row(black_box(row), &mut self.out).unwrap();
        }
        black_box(&self.out);
    }

    /// Checks that every row is one line of JSON.
    fn check(&self) {
        let lines = self.out.as_slice().strip_suffix(b"\n").unwrap();
        let mut count = 0;
        for line in lines.split(|byte| *byte == b'\n') {
            serde_json::from_slice::<serde::de::IgnoredAny>(line).unwrap();
            count += 1;
        }
        assert_eq!(count, self.shape.rows.len(), "{}", self.shape.name);
    }

    /// Returns the allocations of a pass, and its nanoseconds in each trial.
    fn measure(mut self) -> (f64, Vec<f64>) {
        let allocations = allocation_counter::measure(|| self.run()).count_total;
        let trials = (0..TRIALS).map(|_| self.trial()).collect();
        (allocations as f64, trials)
    }

    fn trial(&mut self) -> f64 {
        let until = Instant::now() + TRIAL;
        let mut passes = Vec::new();
        while Instant::now() < until {
            let start = Instant::now();
            self.run();
            passes.push(start.elapsed().as_nanos() as f64);
        }
        sorted(&passes)[passes.len() / 2]
    }
}

fn print(shape: &str, metric: &str, unit: &str, samples: &[f64]) {
    let sorted = sorted(samples);
    let count = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / count;
    let variance = sorted.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
    let (median, min, max) = (
        sorted[sorted.len() / 2],
        sorted[0],
        sorted[sorted.len() - 1],
    );
    println!(
        r#"{{"shape":"{shape}","library":"pgz-edge","runtime":"native","config":{{"rows":{ROWS}}},"metric":"{metric}","unit":"{unit}","median":{median},"min":{min},"max":{max},"stddev":{},"trials":{count}}}"#,
        variance.sqrt(),
    );
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
