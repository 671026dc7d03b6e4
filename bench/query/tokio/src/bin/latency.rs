//! tokio-postgres, a native peer of CASE=latency: the shapes of bench/latency/shapes.mjs, one trial for each line of
//! JSON on stdin. A known statement is a prepared one; any other is sent as text, which prepares it.
//!
//! A mark tells the case that the measured part begins or ends. It may block, because nothing else must happen
//! meanwhile.
use std::error::Error;
use std::future::Future;
use std::io::{BufRead, Read, Write, stdin, stdout};
use std::net::TcpStream;
use std::time::Instant;

use futures_util::future::{try_join, try_join_all};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, Row, Statement, ToStatement};

const SHAPES: [&str; 6] = [
    "connect_new",
    "connect_known",
    "new_5",
    "known_5",
    "transaction_3",
    "scope",
];
const SINGLE: &str = "select $1::int4 as n, 'single' as t";
const FIVE: [&str; 5] = [
    "select $1::int4 as n, 'first' as t",
    "select $1::int4 as n, 'second' as t",
    "select $1::int4 as n, 'third' as t",
    "select $1::int4 as n, 'fourth' as t",
    "select $1::int4 as n, 'fifth' as t",
];
const SET_TENANT: &str = "select set_config('app.tenant', $1, true)";
const OF_TENANT: &str = "select $1::int4 as n, current_setting('app.tenant') as t";
const NAMES: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for line in stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let reply = if asked["hello"] == true {
            json!({ "shapes": SHAPES })
        } else {
            runtime
                .block_on(trial(&asked))
                .unwrap_or_else(|error| json!({ "error": format!("{error:?}") }))
        };
        println!("{reply}");
        stdout().flush().expect("stdout");
    }
}

struct Session {
    client: Client,
    connection: JoinHandle<()>,
}

impl Session {
    async fn open(url: &str) -> Result<Session> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let connection = tokio::spawn(async { connection.await.expect("a connection") });
        Ok(Session { client, connection })
    }

    async fn close(self) -> Result<()> {
        drop(self.client);
        Ok(self.connection.await?)
    }
}

async fn trial(asked: &Value) -> Result<Value> {
    let text = |name: &str| asked[name].as_str().expect("text");
    let (url, mark) = (text("url"), text("mark"));
    match text("shape") {
        "connect_new" => connect(url, mark).await,
        "connect_known" => {
            let session = Session::open(url).await?;
            session.client.query_one(SINGLE, &[&7]).await?;
            session.close().await?;
            connect(url, mark).await
        }
        shape => {
            let mut session = Session::open(url).await?;
            session.client.query_one(SINGLE, &[&7]).await?;
            let measured = on_connection(&mut session.client, shape, mark).await?;
            session.close().await?;
            Ok(measured)
        }
    }
}

async fn connect(url: &str, mark: &str) -> Result<Value> {
    let (measured, session) = measured(mark, async {
        let session = Session::open(url).await?;
        let row = session.client.query_one(SINGLE, &[&7]).await?;
        check(&[row], &[(7, "single")])?;
        Ok(session)
    })
    .await?;
    session.close().await?;
    Ok(measured)
}

async fn on_connection(client: &mut Client, shape: &str, mark: &str) -> Result<Value> {
    if shape == "new_5" {
        return Ok(measured(mark, together(client, &FIVE)).await?.0);
    }
    if shape == "scope" {
        let set = client.prepare(SET_TENANT).await?;
        let select = client.prepare(OF_TENANT).await?;
        let work = of_tenant(client, &set, &select);
        return Ok(measured(mark, work).await?.0);
    }
    let statements: Vec<Statement> =
        try_join_all(FIVE.iter().map(|text| client.prepare(text))).await?;
    if shape == "known_5" {
        let statements: Vec<&Statement> = statements.iter().collect();
        return Ok(measured(mark, together(client, &statements)).await?.0);
    }
    let (measured, ()) = measured(mark, async {
        let transaction = client.transaction().await?;
        let mut rows = Vec::new();
        for (n, statement) in statements.iter().take(3).enumerate() {
            rows.push(transaction.query_one(statement, &[&(n as i32)]).await?);
        }
        transaction.commit().await?;
        check(&rows, &expected(3))
    })
    .await?;
    Ok(measured)
}

/// Concurrent queries leave in one flight. COMMIT is a separate call.
async fn of_tenant(client: &mut Client, set: &Statement, select: &Statement) -> Result<()> {
    let transaction = client.transaction().await?;
    let (_, row) = try_join(
        transaction.query_one(set, &[&"7"]),
        transaction.query_one(select, &[&7]),
    )
    .await?;
    transaction.commit().await?;
    check(&[row], &[(7, "7")])
}

async fn together<T: ?Sized + ToStatement>(client: &Client, statements: &[&T]) -> Result<()> {
    let numbers = [0, 1, 2, 3, 4];
    let rows = try_join_all(
        statements
            .iter()
            .zip(&numbers)
            .map(async |(&statement, n)| client.query_one(statement, &[n]).await),
    )
    .await?;
    check(&rows, &expected(5))
}

async fn measured<T>(mark: &str, work: impl Future<Output = Result<T>>) -> Result<(Value, T)> {
    say(mark, "begin")?;
    let start = Instant::now();
    let result = work.await?;
    let wall_ms = start.elapsed().as_secs_f64() * 1000.0;
    say(mark, "end")?;
    Ok((json!({ "wall_ms": wall_ms }), result))
}

fn expected(count: usize) -> Vec<(i32, &'static str)> {
    (0..).zip(NAMES).take(count).collect()
}

fn check(rows: &[Row], expected: &[(i32, &str)]) -> Result<()> {
    let found: Vec<(i32, &str)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    if found == expected {
        return Ok(());
    }
    Err(format!("{found:?} where {expected:?} was to come").into())
}

/// `mark` is `http://host:port/trial`.
fn say(mark: &str, what: &str) -> Result<()> {
    let (host, trial) = mark
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .ok_or("a mark's address")?;
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "POST /{trial}/{what} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    if response.starts_with("HTTP/1.1 200") {
        return Ok(());
    }
    Err(format!("mark {what}: {response}").into())
}
