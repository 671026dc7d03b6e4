//! The stream of a replication connection: the contents of CopyData, and the status updates that go back.
//!
//! ```text
//! XLogData  'w' | int64 start | int64 end of WAL | int64 clock | a message of pgoutput
//! keepalive 'k' | int64 end of WAL | int64 clock | byte: 1 = answer immediately
//! status    'r' | int64 written | int64 flushed | int64 applied | int64 clock | byte
//! ```
//! Knows which transactions were yielded on an earlier connection. Must not know sockets, which message may come when
//! (place.rs), or which lines have been read.

mod snapshot;

pub use snapshot::Table;

use super::batch::{Batch, Head};
use super::copy_row::CopyRow;
use super::line::{Begun, COMMITTED_AT, Lines};
use super::message::{Message, Old, Position, Prepared, RelationMessage, Timestamp, Tuple};
use super::place::{Inside, Place};
use super::relation::{Relation, RowOptions, Which};
use super::yielded::Yielded;
use crate::boundary::change_kinds as kind;
use crate::error::{Failure, Reason};
use crate::protocol::frontend;
use crate::protocol::reader::{Malformed, Reader};
use crate::types::{AsStrings, Types};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// How changes are written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Writes batches for objects instead of lines.
    pub objects: bool,
    /// Types whose values are written as strings.
    pub strings: AsStrings,
    /// `created_at` becomes `createdAt`.
    pub camel_case: bool,
    /// Parts of open transactions are asked for.
    pub streams: bool,
}

/// A keepalive: the server's message between changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// The end of its WAL.
    pub end: Position,
    /// The server closes the connection unless a status update arrives.
    pub wants_status: bool,
}

/// Reads changes and writes their lines.
#[derive(Debug)]
pub struct Changes {
    options: RowOptions,
    streams: bool,
    types: Types,
    relations: BTreeMap<u32, Relation>,
    /// Each table's description as it arrived, by the table's OID.
    described: BTreeMap<u32, Box<[u8]>>,
    /// The OID of the table that was last reported under each name. A reader knows a table by its name, so a table
    /// that takes its name back from another is reported again.
    owners: BTreeMap<Box<[u8]>, u32>,
    /// Other descriptions that came with transactions that were yielded earlier. They are reported only if a change
    /// follows that has them. Empty: there is none.
    unreported: BTreeMap<u32, Box<[u8]>>,
    /// Types of recently described tables that are not described yet: until then their values stay text.
    wanted: Vec<u32>,
    lines: Lines,
    /// The destination of changes as objects. A change without a form of its own there is written as a line first.
    batch: Option<Batch>,
    /// The row of a snapshot that is being read.
    copy_row: CopyRow,
    /// Number of bytes of the message that is being read.
    message_bytes: usize,
    place: Place,
    /// The transaction whose line is written with the next message, because that may be an Origin, a member of the
    /// line.
    begun: Option<Begun>,
    /// Position of the last line. Used for a table's description, for which the server gives no position.
    last: Position,
    /// Commits up to here were yielded on earlier connections.
    yielded_to: Position,
    /// Transactions that are recognised by their id.
    yielded: Yielded,
    /// Transactions of which parts were yielded, and no end.
    open: Vec<u32>,
    /// Position after the last commit that was read.
    committed: Position,
    /// The end of the server's WAL, as last reported.
    end: Position,
}

impl Changes {
    /// The state at the beginning of a stream.
    pub fn new(options: Options) -> Changes {
        let Options {
            objects,
            strings,
            camel_case,
            streams,
        } = options;
        Changes {
            options: RowOptions {
                strings,
                camel_case,
            },
            streams,
            types: Types::default(),
            relations: BTreeMap::new(),
            described: BTreeMap::new(),
            owners: BTreeMap::new(),
            unreported: BTreeMap::new(),
            wanted: Vec::new(),
            lines: Lines::new(),
            batch: objects.then(Batch::new),
            copy_row: CopyRow::default(),
            message_bytes: 0,
            place: Place::Outside,
            begun: None,
            last: 0,
            yielded_to: 0,
            yielded: Yielded::default(),
            open: Vec::new(),
            committed: 0,
            end: 0,
        }
    }

    /// Restarts the stream on a new connection. Transactions that were yielded are dropped: those whose commit ends at
    /// or before `yielded`, and those that are recognised by their id. Tables stay known, and unchanged ones are not
    /// reported again.
    pub fn restart(&mut self, yielded: Position) {
        self.place = Place::Outside;
        self.begun = None;
        self.wanted.clear();
        // Another server's log may be shorter.
        self.end = 0;
        self.unreported.clear();
        self.yielded_to = yielded;
        self.take_back_parts();
    }

    /// Reports open transactions as rolled back. The server sends nothing more of one that was rolled back meanwhile,
    /// and may send another one whole.
    fn take_back_parts(&mut self) {
        let at = Where {
            start: self.last,
            subxid: None,
        };
        for xid in core::mem::take(&mut self.open) {
            self.abort(xid, xid, at);
            self.line_is_over();
        }
    }

    /// The server need not send transactions again that ended at or before `acknowledged`.
    pub fn acknowledged(&mut self, acknowledged: Position) {
        self.yielded.forget(acknowledged);
    }

    /// Takes new descriptions of types, which apply from now on.
    pub fn define_types(&mut self, types: Types) {
        self.types = types;
        for relation in self.relations.values_mut() {
            relation.learn(self.options.strings, &self.types);
        }
    }

    /// Reads the body of one CopyData. Returns the content of a keepalive.
    pub fn receive(&mut self, body: &[u8]) -> Result<Option<Keepalive>, Failure> {
        let mut reader = Reader::new(body);
        match reader.u8() {
            Ok(b'w') => self.log_data(&mut reader).map(|()| None),
            Ok(b'k') => self
                .keepalive(&mut reader)
                .map(Some)
                .map_err(|Malformed| malformed(b'k')),
            Ok(tag) => Err(malformed(tag)),
            Err(Malformed) => Err(malformed(0)),
        }
    }

    /// Takes the types to describe before the next message is read. Each table asks once for its own types.
    pub fn take_wanted(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.wanted)
    }

    /// Whether there are types to describe.
    pub fn wants_types(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether there is any output.
    pub fn has_output(&self) -> bool {
        match &self.batch {
            Some(batch) => !batch.is_empty(),
            None => !self.lines.out.is_empty(),
        }
    }

    /// Completes the output written so far. The caller must take it before more is read.
    pub fn seal(&mut self, keep: usize) {
        if let Some(batch) = &mut self.batch {
            batch.seal(keep);
        }
    }

    /// The lines so far, or the sealed batch.
    pub fn output(&self) -> &[u8] {
        match &self.batch {
            Some(batch) => batch.sealed(),
            None => self.lines.out.as_slice(),
        }
    }

    /// Drops the output after it has been taken. Keeps at most `keep` bytes of capacity.
    pub fn output_taken(&mut self, keep: usize) {
        match &mut self.batch {
            Some(batch) => batch.clear(keep),
            None => self.lines.out.clear(keep),
        }
    }

    /// Whether the stream is between two transactions.
    pub fn is_outside(&self) -> bool {
        self.place == Place::Outside
    }

    /// Position after the last commit that was read; 0 before the first.
    pub fn committed(&self) -> Position {
        self.committed
    }

    /// The end of the server's WAL, as last reported.
    pub fn end(&self) -> Position {
        self.end
    }

    fn keepalive(&mut self, reader: &mut Reader<'_>) -> Result<Keepalive, Malformed> {
        let end = lsn(reader)?;
        lsn(reader)?;
        let wants_status = reader.u8()? != 0;
        reader.end()?;
        self.end = self.end.max(end);
        Ok(Keepalive { end, wants_status })
    }

    fn log_data(&mut self, reader: &mut Reader<'_>) -> Result<(), Failure> {
        let head = (lsn(reader), lsn(reader), lsn(reader));
        let (Ok(start), Ok(end), Ok(_clock)) = head else {
            return Err(malformed(b'w'));
        };
        self.end = self.end.max(end);
        let body = reader.remaining();
        let tag = body.first().copied().unwrap_or_default();
        let (message, subxid) =
            Message::parse(body, self.place.is_part()).map_err(|Malformed| malformed(tag))?;
        self.message_bytes = body.len();
        let since = self.lines.out.len();
        let before = self.batch.as_ref().map(Batch::end);
        let outcome = self.message(message, Where { start, subxid }, body);
        if outcome.is_err() {
            self.lines.out.truncate(since);
            if let (Some(batch), Some(before)) = (&mut self.batch, before) {
                batch.truncate(before);
            }
        }
        self.line_is_over();
        outcome
    }

    /// If objects are requested, turns the line that was written into an element of the batch.
    fn line_is_over(&mut self) {
        let Some(batch) = &mut self.batch else {
            return;
        };
        if let [object @ .., b'\n'] = self.lines.out.as_slice() {
            batch.line(object, self.message_bytes);
            self.lines.out.clear(LINE_ROOM);
        }
    }

    fn message(&mut self, message: Message<'_>, at: Where, body: &[u8]) -> Result<(), Failure> {
        if !self.place.admits(&message, self.streams) {
            return Err(out_of_order(message.name()));
        }
        if let Some(begun) = self.begun.take() {
            self.begun(&begun, &message);
        }
        match message {
            Message::Begin {
                final_position,
                committed_at,
                xid,
            } => self.begin(xid, final_position, committed_at),
            Message::BeginPrepare(prepared) => self.begin_prepare(&prepared),
            Message::StreamStart { xid, is_first } => self.part(xid, is_first, at),
            Message::StreamStop => self.place = Place::Outside,
            Message::Commit {
                end_position,
                committed_at,
                ..
            } => self.commit(end_position, committed_at),
            Message::StreamCommit {
                xid,
                end_position,
                committed_at,
            } => self.stream_commit(xid, end_position, committed_at),
            Message::StreamAbort { xid, subxid } => self.stream_abort(xid, subxid, at),
            Message::Prepare(prepared) | Message::StreamPrepare(prepared) => {
                self.prepare(&prepared);
            }
            Message::CommitPrepared(prepared) => self.outcome("commitPrepared", &prepared),
            Message::RollbackPrepared(prepared) => self.outcome("rollbackPrepared", &prepared),
            Message::Relation(relation) => self.relation_or_later(&relation, at, body),
            Message::Type { .. } | Message::Origin { .. } => {}
            _ if self.place.is_known() => {}
            Message::Insert { relation, new } => self.insert(relation, &new, at)?,
            Message::Update { relation, old, new } => {
                self.update(relation, old.as_ref(), &new, at)?;
            }
            Message::Delete { relation, old } => self.delete(relation, &old, at)?,
            Message::Truncate {
                relations,
                cascade,
                restart_identity,
            } => self.truncate(relations, cascade, restart_identity, at)?,
            Message::Logical {
                is_transactional,
                position,
                prefix,
                content,
            } => {
                let at = Where {
                    start: position,
                    ..at
                };
                self.logical(is_transactional, at, prefix, content);
            }
        }
        Ok(())
    }

    // -- transactions ------------------------------------------------------------------------------------------------

    /// `final_position` is where the commit record begins, so the end position of the commit is higher. The transaction
    /// was yielded earlier if `final_position` is below `yielded_to`.
    fn begin(&mut self, xid: u32, final_position: Position, at: Timestamp) {
        let is_known = final_position < self.yielded_to;
        self.place = Place::Transaction(Inside { xid, is_known });
        self.begins(xid, final_position, at, &[]);
    }

    fn begin_prepare(&mut self, prepared: &Prepared<'_>) {
        let &Prepared {
            end_position,
            at,
            xid,
            gid,
        } = prepared;
        let is_known = self.yielded.has(xid);
        self.place = Place::Prepared(Inside { xid, is_known });
        self.begins(xid, end_position.saturating_sub(1), at, gid);
    }

    fn begins(&mut self, xid: u32, final_position: Position, at: Timestamp, gid: &[u8]) {
        if self.place.is_known() {
            return;
        }
        self.last = final_position;
        self.begun = Some(Begun {
            final_position,
            at,
            xid,
            gid: gid.into(),
        });
    }

    /// Writes the beginning of a transaction. An Origin after Begin is a member of its line.
    fn begun(&mut self, begun: &Begun, next: &Message<'_>) {
        let has_more = !begun.gid.is_empty() || matches!(next, Message::Origin { .. });
        match &mut self.batch {
            Some(batch) if !has_more => {
                let head = Head {
                    position: begun.final_position,
                    xid: begun.xid,
                    subxid: 0,
                    bytes: 0,
                };
                batch.of_transaction(kind::BEGIN, &begun.at, head);
            }
            _ => {
                self.lines.begun(begun, next);
                self.line_is_over();
            }
        }
    }

    fn commit(&mut self, end_position: Position, committed_at: Timestamp) {
        let xid = self.place.xid();
        self.place = Place::Outside;
        if let Some(xid) = xid {
            self.has_committed(xid, end_position, committed_at);
        }
    }

    /// Writes the end of a transaction that has committed.
    fn has_committed(&mut self, xid: u32, end_position: Position, committed_at: Timestamp) {
        if self.streams {
            self.yielded.ended(xid, end_position);
        }
        let Some(batch) = &mut self.batch else {
            return self.ends("commit", xid, end_position, |lines| {
                lines.time(COMMITTED_AT, committed_at);
            });
        };
        self.committed = self.committed.max(end_position);
        let head = Head {
            position: end_position,
            xid,
            subxid: 0,
            bytes: self.message_bytes,
        };
        batch.of_transaction(kind::COMMIT, &committed_at, head);
    }

    fn part(&mut self, xid: u32, is_first: bool, at: Where) {
        let is_known = self.yielded.has(xid);
        self.place = Place::Part(Inside { xid, is_known });
        if is_known {
            return;
        }
        if !self.open.contains(&xid) {
            self.open.push(xid);
        }
        self.lines.begin("stream", at.start);
        self.lines.xid(xid);
        self.lines.boolean(b",\"first\":", is_first);
        self.lines.end();
    }

    /// The transaction is over, or will be by its outcome only.
    fn has_ended(&mut self, xid: u32) {
        self.open.retain(|open| *open != xid);
    }

    fn stream_commit(&mut self, xid: u32, end_position: Position, committed_at: Timestamp) {
        if self.yielded.has(xid) {
            return;
        }
        self.has_ended(xid);
        self.has_committed(xid, end_position, committed_at);
    }

    fn stream_abort(&mut self, xid: u32, subxid: u32, at: Where) {
        // PostgreSQL 18 sends this, unasked too, for a large transaction that was rolled back before it was decoded.
        if !self.open.contains(&xid) {
            return;
        }
        if subxid == xid {
            self.has_ended(xid);
        }
        self.abort(xid, subxid, at);
    }

    fn abort(&mut self, xid: u32, subxid: u32, at: Where) {
        self.lines.begin("abort", at.start);
        self.lines.xid(xid);
        if subxid != xid {
            self.lines.number(SUBXID, subxid);
        }
        self.lines.end();
    }

    fn prepare(&mut self, prepared: &Prepared<'_>) {
        let xid = prepared.xid;
        self.place = Place::Outside;
        if self.yielded.has(xid) {
            return;
        }
        self.has_ended(xid);
        self.yielded.prepared(xid);
        self.two_phase("prepare", prepared);
    }

    /// COMMIT PREPARED and ROLLBACK PREPARED come in the order of their positions, as commits do.
    fn outcome(&mut self, kind: &'static str, prepared: &Prepared<'_>) {
        if prepared.end_position <= self.yielded_to {
            return;
        }
        self.yielded.ended(prepared.xid, prepared.end_position);
        self.two_phase(kind, prepared);
    }

    fn two_phase(&mut self, kind: &'static str, prepared: &Prepared<'_>) {
        self.ends(kind, prepared.xid, prepared.end_position, |lines| {
            lines.text(GID, prepared.gid);
            lines.time(b",\"at\":", prepared.at);
        });
    }

    /// Writes the line that ends a transaction.
    fn ends(
        &mut self,
        kind: &'static str,
        xid: u32,
        end_position: Position,
        more: impl FnOnce(&mut Lines),
    ) {
        self.committed = self.committed.max(end_position);
        self.lines.begin(kind, end_position);
        self.lines.xid(xid);
        more(&mut self.lines);
        self.lines.end();
    }

    // -- changes -----------------------------------------------------------------------------------------------------

    /// Takes a table's description. The server sends it once per connection, and again after a change of the table.
    fn relation_or_later(&mut self, message: &RelationMessage<'_>, at: Where, body: &[u8]) {
        // In a part of a transaction, the transaction's id comes first.
        let described = body
            .get(1 + 4 * usize::from(at.subxid.is_some())..)
            .unwrap_or_default();
        if self.place.is_known() {
            // It may be older than the one that was reported last.
            self.unreported.insert(message.oid, described.into());
            return;
        }
        self.take_unreported(message.oid);
        self.relation(message, at, described);
    }

    /// Reports the description of a table that came with a transaction that was yielded earlier.
    fn report(&mut self, oid: u32, at: Where) -> Result<(), Failure> {
        let described = self.take_unreported(oid);
        if described.is_empty() {
            return Ok(());
        }
        match Message::parse(&[b"R", &*described].concat(), false) {
            Ok((Message::Relation(message), _)) => self.relation(&message, at, &described),
            _ => return Err(malformed(b'R')),
        }
        self.line_is_over();
        Ok(())
    }

    fn take_unreported(&mut self, oid: u32) -> Box<[u8]> {
        let described = self.unreported.get_mut(&oid);
        described.map(core::mem::take).unwrap_or_default()
    }

    /// Reports a table, unless its description is the last one. `described`: the message after its tag.
    fn relation(&mut self, message: &RelationMessage<'_>, at: Where, described: &[u8]) {
        let oid = message.oid;
        if self
            .described
            .get(&oid)
            .is_some_and(|known| **known == *described)
        {
            self.want_types(oid);
            return;
        }
        self.described.insert(oid, described.into());
        let relation = Relation::new(message, self.options, &self.types);
        let before = self.owners.insert(relation.place.clone(), oid);
        if let Some(before) = before.filter(|before| *before != oid) {
            self.described.remove(&before);
        }
        self.head("schema", at);
        self.lines.place(&relation);
        self.lines.columns(&relation);
        self.lines.end();
        self.relations.insert(oid, relation);
        self.want_types(oid);
    }

    /// Requests the table's unknown types, even if they were requested before: the last connection may have been lost
    /// before the answer arrived.
    fn want_types(&mut self, relation: u32) {
        let Some(relation) = self.relations.get(&relation) else {
            return;
        };
        let type_oids = relation.columns.iter().map(|column| column.type_oid);
        self.wanted
            .extend(type_oids.filter(|oid| self.types.is_unknown(*oid)));
    }

    /// Puts a row into slots. `false`: it needs a line.
    fn row(&mut self, kind: u32, oid: u32, new: &Tuple<'_>, at: Where) -> Result<bool, Failure> {
        let (position, xid) = (self.position(at), self.place.xid());
        let (Some(batch), Some(xid)) = (&mut self.batch, xid) else {
            return Ok(false);
        };
        let relation = self.relations.get_mut(&oid).ok_or_else(unknown_table)?;
        let head = Head {
            position,
            xid,
            subxid: at.subxid.filter(|subxid| *subxid != xid).unwrap_or(0),
            bytes: self.message_bytes,
        };
        Ok(batch.row(kind, relation, (new.count, new.values()), head)?)
    }

    fn insert(&mut self, oid: u32, new: &Tuple<'_>, at: Where) -> Result<(), Failure> {
        self.report(oid, at)?;
        if self.row(kind::INSERT, oid, new, at)? {
            return Ok(());
        }
        self.head("insert", at);
        let relation = found(&self.relations, oid)?;
        self.lines.place(relation);
        self.lines.put(NEW);
        relation.append_tuple(new, Which::All, &mut self.lines.out)?;
        self.lines.end();
        Ok(())
    }

    fn update(
        &mut self,
        oid: u32,
        old: Option<&Old<'_>>,
        new: &Tuple<'_>,
        at: Where,
    ) -> Result<(), Failure> {
        self.report(oid, at)?;
        if old.is_none() && self.row(kind::UPDATE, oid, new, at)? {
            return Ok(());
        }
        self.head("update", at);
        let relation = found(&self.relations, oid)?;
        self.lines.place(relation);
        if let Some(old) = old {
            self.lines.put(OLD);
            relation.append_tuple(&old.tuple, which(old), &mut self.lines.out)?;
        }
        self.lines.put(NEW);
        if relation.append_tuple(new, Which::All, &mut self.lines.out)? {
            self.lines.put(b",\"unchanged\":");
            relation.append_unchanged(new, &mut self.lines.out);
        }
        self.lines.end();
        Ok(())
    }

    fn delete(&mut self, oid: u32, old: &Old<'_>, at: Where) -> Result<(), Failure> {
        self.report(oid, at)?;
        self.head("delete", at);
        let relation = found(&self.relations, oid)?;
        self.lines.place(relation);
        self.lines.put(OLD);
        relation.append_tuple(&old.tuple, which(old), &mut self.lines.out)?;
        self.lines.end();
        Ok(())
    }

    fn truncate(
        &mut self,
        oids: &[[u8; 4]],
        cascade: bool,
        restart: bool,
        at: Where,
    ) -> Result<(), Failure> {
        for oid in oids {
            self.report(u32::from_be_bytes(*oid), at)?;
        }
        self.head("truncate", at);
        let known = oids
            .iter()
            .map(|oid| found(&self.relations, u32::from_be_bytes(*oid)));
        let relations = known.collect::<Result<Vec<_>, _>>()?;
        self.lines.tables(relations.into_iter());
        self.lines.boolean(b",\"cascade\":", cascade);
        self.lines.boolean(b",\"restartIdentity\":", restart);
        self.lines.end();
        Ok(())
    }

    fn logical(&mut self, is_transactional: bool, at: Where, prefix: &[u8], content: &[u8]) {
        self.head("message", at);
        self.lines.boolean(b",\"transactional\":", is_transactional);
        self.lines.text(b",\"prefix\":", prefix);
        self.lines.content(content);
        self.lines.end();
    }

    /// The position of a change. A change without its own position has that of the previous change.
    fn position(&mut self, at: Where) -> Position {
        if at.start != 0 {
            self.last = at.start;
        }
        self.last
    }

    /// Writes the beginning of a change's line.
    fn head(&mut self, kind: &'static str, at: Where) {
        let position = self.position(at);
        self.lines.begin(kind, position);
        let xid = self.place.xid();
        if let Some(xid) = xid {
            self.lines.xid(xid);
        }
        if let Some(subxid) = at.subxid
            && at.subxid != xid
        {
            self.lines.number(SUBXID, subxid);
        }
    }
}

/// Appends a status update in a CopyData. The server may discard WAL up to `flushed`.
pub fn status_update(buffer: &mut Vec<u8>, flushed: Position, clock: i64, wants_answer: bool) {
    frontend::copy_data_header(buffer, STATUS_LENGTH);
    buffer.push(b'r');
    for position in [flushed; 3] {
        buffer.extend_from_slice(&position.to_be_bytes());
    }
    buffer.extend_from_slice(&clock.to_be_bytes());
    buffer.push(wants_answer.into());
}

/// `'r'`, three positions, the clock, a byte.
const STATUS_LENGTH: u32 = 1 + 3 * 8 + 8 + 1;

const SUBXID: &[u8] = b",\"subxid\":";
const GID: &[u8] = b",\"gid\":";
const OLD: &[u8; 7] = b",\"old\":";
const NEW: &[u8; 7] = b",\"new\":";

/// Capacity that is kept of the buffer for a line that becomes an object.
const LINE_ROOM: usize = 1 << 16;

/// The position of one message in WAL, and the transaction id in front of it.
#[derive(Debug, Clone, Copy)]
struct Where {
    start: Position,
    subxid: Option<u32>,
}

fn which(old: &Old<'_>) -> Which {
    if old.is_key { Which::Key } else { Which::All }
}

fn found(relations: &BTreeMap<u32, Relation>, oid: u32) -> Result<&Relation, Failure> {
    relations.get(&oid).ok_or_else(unknown_table)
}

fn unknown_table() -> Failure {
    Failure::new(&Reason {
        code: "PROTOCOL_VIOLATION",
        message: "the server sent a change of a table that it has not described; the connection is closed",
    })
}

fn malformed(tag: u8) -> Failure {
    Failure::malformed_change(tag)
}

fn out_of_order(message: &'static str) -> Failure {
    Failure::about(
        &Reason {
            code: "UNEXPECTED_MESSAGE",
            message: "the server sent a message of a transaction that has no place here; the connection is closed",
        },
        &[message],
    )
}

fn lsn(reader: &mut Reader<'_>) -> Result<Position, Malformed> {
    let bytes = reader.bytes(8)?.try_into().map_err(|_| Malformed)?;
    Ok(Position::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests;
