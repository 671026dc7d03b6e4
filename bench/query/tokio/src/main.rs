//! tokio-postgres, the native peer of CASE=query: prepared statements, every column decoded to a Rust value, one
//! thread. It answers lines of JSON on stdin, as bench/child.mjs does, with the same shapes, counts and sums.
//!
//! In `select_where`, whose row has columns without a Rust type in tokio-postgres (regproc, pg_node_tree), only typname
//! is decoded.
use std::io::{BufRead, Write, stdin, stdout};
use std::time::{Duration, Instant, UNIX_EPOCH};

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Error, NoTls, Row, SimpleQueryMessage, Statement};

const TEXT: &str = "Grüße, 'quoted' \\ and \"double\"";
const MILLISECONDS: u64 = 1_770_091_506_789;
const IN_FLIGHT: i32 = 100;
const SIMPLE: &str = "SELECT id, name FROM harbors LIMIT 5";
const SHAPES: [&str; 7] = [
    "select",
    "select_arg",
    "select_args",
    "select_where",
    "simple",
    "singles_55000",
    "pipelined_100",
];

struct Peer {
    client: Client,
    select: Statement,
    select_arg: Statement,
    select_args: Statement,
    select_where: Statement,
    singles: Statement,
    bytes: Vec<u8>,
    json: Value,
}

fn main() {
    let url = std::env::args().nth(1).expect("usage: tokio-peer <url>");
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let peer = runtime.block_on(Peer::open(&url)).expect("a session");
    for line in stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let reply = answer(&runtime, &peer, &asked)
            .unwrap_or_else(|error| json!({ "error": format!("{error:?}") }));
        println!("{reply}");
        stdout().flush().expect("stdout");
    }
}

fn answer(runtime: &Runtime, peer: &Peer, asked: &Value) -> Result<Value, Error> {
    if asked["hello"] == true {
        return Ok(json!({ "shapes": SHAPES }));
    }
    if let Some(milliseconds) = asked["idle"].as_u64() {
        return timed(|| {
            std::thread::sleep(Duration::from_millis(milliseconds));
            Ok(json!({}))
        });
    }
    let shape = asked["shape"].as_str().expect("a shape");
    if asked["check"] == true {
        return Ok(json!({ "rows": runtime.block_on(peer.checked(shape))? }));
    }
    let times = asked["times"].as_i64().expect("times") as i32;
    timed(|| {
        runtime.block_on(async {
            let mut counted = (0i64, 0i64);
            for index in 0..times {
                let (rows, sum) = peer.run(shape, index).await?;
                counted = (counted.0 + rows, counted.1 + sum);
            }
            Ok(json!({ "rows": counted.0, "sum": counted.1 }))
        })
    })
}

fn timed(work: impl FnOnce() -> Result<Value, Error>) -> Result<Value, Error> {
    let (cpu, start) = (cpu_time(), Instant::now());
    let mut result = work()?;
    result["wall_ms"] = json!(start.elapsed().as_secs_f64() * 1e3);
    result["cpu_ms"] = json!((cpu_time() - cpu) * 1e3);
    Ok(result)
}

/// CPU time in seconds, user plus system.
fn cpu_time() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills what it is given, and with RUSAGE_SELF it cannot fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

impl Peer {
    async fn open(url: &str) -> Result<Peer, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client
            .batch_execute(
                "create temp table harbors (id serial primary key, name varchar(255) not null)",
            )
            .await?;
        client
            .batch_execute(
                "insert into harbors (name) select 'Harbor ' || i from generate_series(1, 100) i",
            )
            .await?;
        Ok(Peer {
            select: client.prepare("SELECT 1 as x").await?,
            select_arg: client.prepare("SELECT $1::int4 as x").await?,
            select_args: client
                .prepare(
                    "SELECT $1::int4 as a, $2::text as b, $3::timestamptz as c, \
                    $4::int4 as d, $5::bool as e, $6::bytea as f, $7::jsonb as g",
                )
                .await?,
            select_where: client
                .prepare("select * from pg_catalog.pg_type where typname = $1")
                .await?,
            singles: client
                .prepare("SELECT id, name FROM harbors LIMIT $1")
                .await?,
            bytes: (0..32).map(|index| index * 8).collect(),
            json: json!({ "a": [1, 2.5, null], "b": { "c": "x" } }),
            client,
        })
    }

    /// Returns the number of rows, and the sum over them of the value that shapes.mjs defines.
    async fn run(&self, shape: &str, index: i32) -> Result<(i64, i64), Error> {
        match shape {
            "select" => Ok(summed(
                &self.client.query(&self.select, &[]).await?,
                |row| row.get::<_, i32>(0),
            )),
            "select_arg" => Ok(summed(
                &self.client.query(&self.select_arg, &[&index]).await?,
                |row| row.get::<_, i32>(0),
            )),
            "select_args" => Ok(summed(&self.args(index).await?, |row| decoded(row).0)),
            "select_where" => Ok(summed(
                &self.client.query(&self.select_where, &[&"bool"]).await?,
                |row| row.get::<_, &str>("typname").len() as i32,
            )),
            "simple" => Ok(self
                .simple()
                .await?
                .iter()
                .fold((0, 0), |(rows, sum), (id, _)| {
                    (rows + 1, sum + i64::from(*id))
                })),
            "singles_55000" => Ok(summed(
                &self
                    .client
                    .query(&self.singles, &[&i64::from(index % 10 + 1)])
                    .await?,
                |row| {
                    std::hint::black_box(row.get::<_, String>(1));
                    row.get::<_, i32>(0)
                },
            )),
            "pipelined_100" => {
                let all: Vec<i32> = (0..IN_FLIGHT).collect();
                let answers = try_join_all(all.iter().map(|value| async move {
                    self.client.query(&self.select_arg, &[value]).await
                }))
                .await?;
                Ok(answers
                    .iter()
                    .map(|rows| summed(rows, |row| row.get::<_, i32>(0)))
                    .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)))
            }
            other => panic!("there is no shape {other}"),
        }
    }

    async fn args(&self, first: i32) -> Result<Vec<Row>, Error> {
        let time = UNIX_EPOCH + Duration::from_millis(MILLISECONDS);
        self.client
            .query(
                &self.select_args,
                &[
                    &first,
                    &TEXT,
                    &time,
                    &None::<i32>,
                    &true,
                    &self.bytes,
                    &self.json,
                ],
            )
            .await
    }

    async fn simple(&self) -> Result<Vec<(i32, String)>, Error> {
        let messages = self.client.simple_query(SIMPLE).await?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((row.get(0)?.parse().ok()?, row.get(1)?.to_owned()))
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    /// Returns the rows of the operation with the value 7, as `[name, text]` pairs.
    async fn checked(&self, shape: &str) -> Result<Vec<Value>, Error> {
        let harbors = |rows: &[(i32, String)]| {
            rows.iter()
                .map(|(id, name)| json!([["id", id.to_string()], ["name", name]]))
                .collect()
        };
        match shape {
            "select" => Ok(vec![json!([["x", "1"]])]),
            "select_arg" => Ok(vec![json!([[
                "x",
                self.client
                    .query_one(&self.select_arg, &[&7])
                    .await?
                    .get::<_, i32>(0)
                    .to_string()
            ]])]),
            "select_args" => {
                let rows = self.args(7).await?;
                let (a, b, time, d, e, f, g) = decoded(&rows[0]);
                let hex: String = f.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(time, MILLISECONDS);
                Ok(vec![json!([
                    ["a", a.to_string()],
                    ["b", b],
                    ["d", d],
                    ["e", e.to_string()],
                    ["f", hex],
                    ["g", g.to_string()]
                ])])
            }
            "select_where" => Ok(vec![json!([[
                "typname",
                self.client
                    .query_one(&self.select_where, &[&"bool"])
                    .await?
                    .get::<_, &str>("typname")
            ]])]),
            "simple" => Ok(harbors(&self.simple().await?)),
            "singles_55000" => {
                let rows = self.client.query(&self.singles, &[&8i64]).await?;
                Ok(harbors(
                    &rows
                        .iter()
                        .map(|row| (row.get(0), row.get(1)))
                        .collect::<Vec<_>>(),
                ))
            }
            "pipelined_100" => {
                let all: Vec<i32> = (0..IN_FLIGHT).collect();
                let answers = try_join_all(all.iter().map(|value| async move {
                    self.client.query(&self.select_arg, &[value]).await
                }))
                .await?;
                Ok(answers
                    .iter()
                    .map(|rows| json!([["x", rows[0].get::<_, i32>(0).to_string()]]))
                    .collect())
            }
            other => panic!("there is no shape {other}"),
        }
    }
}

type Args<'a> = (i32, &'a str, u64, Option<i32>, bool, &'a [u8], Value);

fn decoded(row: &Row) -> Args<'_> {
    let time: std::time::SystemTime = row.get(2);
    let milliseconds = time
        .duration_since(UNIX_EPOCH)
        .expect("a time of today")
        .as_millis() as u64;
    (
        row.get(0),
        row.get(1),
        milliseconds,
        row.get(3),
        row.get(4),
        row.get(5),
        row.get(6),
    )
}

fn summed(rows: &[Row], value: impl Fn(&Row) -> i32) -> (i64, i64) {
    (
        rows.len() as i64,
        rows.iter().map(|row| i64::from(value(row))).sum(),
    )
}
