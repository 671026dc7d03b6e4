//! The outcomes of a batch's items until they are reported. One event covers many items, since an event per item would
//! cost more than the item.
//!
//! ```text
//! commands   INSERT SELECT                              each once
//! items      0 1 0   0 1 0   1 3 96   -1 -1 0           three numbers each:
//!
//! place in `commands`, -1: the item failed · row count, -1: none · rows that became values, or bytes of output
//! ```

use super::event::Event;
use crate::protocol::command_tag::CommandTag;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of items per event: enough that the event costs almost nothing per item, few enough to keep it small.
const MOST: usize = 1_000;

/// Numbers per item.
const NUMBERS: usize = 3;

/// The finished items, in order.
#[derive(Default)]
pub(super) struct Outcomes {
    commands: Vec<String>,
    items: Vec<i64>,
}

impl Outcomes {
    /// Adds a completed item. `output`: rows or bytes that the item produced.
    pub fn complete(&mut self, command_tag: &[u8], output: u64) {
        let CommandTag { words, row_count } = CommandTag::parse(command_tag);
        let place = self.place(words) as i64;
        let row_count = row_count.map_or(-1, |count| count as i64);
        self.items.extend([place, row_count, output as i64]);
    }

    pub fn failed(&mut self, output: u64) {
        self.items.extend([-1, -1, output as i64]);
    }

    /// Removes the last item: it did not complete after all.
    pub fn drop_last(&mut self) {
        let others = self.items.len().saturating_sub(NUMBERS);
        self.items.truncate(others);
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn are_many(&self) -> bool {
        self.items.len() >= MOST * NUMBERS
    }

    pub fn event(&self) -> Event<'_> {
        Event::Items {
            commands: &self.commands,
            items: &self.items,
        }
    }

    /// The index of this command in `commands`.
    fn place(&mut self, words: &[u8]) -> usize {
        // It is usually the command of the previous item.
        let known = self
            .commands
            .iter()
            .rposition(|known| known.as_bytes() == words);
        known.unwrap_or_else(|| {
            self.commands
                .push(String::from_utf8_lossy(words).into_owned());
            self.commands.len().saturating_sub(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::NUMBERS;
    use crate::boundary::{ended, status};
    use crate::connection::caps::Caps;
    use crate::connection::{BatchEnd, Connection, Login, Settings};
    use alloc::vec;
    use alloc::vec::Vec;

    /// An item of the batch's first statement, without parameters.
    const ITEM: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];

    #[test]
    fn many_are_told_in_pieces_before_what_follows_them() {
        let mut connection = Connection::new(Settings::default());
        connection.start(&Login::default());
        let mut pieces: Vec<usize> = vec![];
        let mut feed = |connection: &mut Connection, bytes: &[u8]| {
            connection.input(bytes.len()).copy_from_slice(bytes);
            let mut ended = connection.received(bytes.len());
            loop {
                for event in connection.take_events().lines() {
                    let event: serde_json::Value = serde_json::from_str(event).unwrap();
                    assert_eq!(event["kind"], "items");
                    assert_eq!(event["commands"], serde_json::json!(["INSERT"]));
                    pieces.push(event["items"].as_array().unwrap().len() / NUMBERS);
                }
                if connection.status() & status::MORE == 0 {
                    return ended;
                }
                ended = connection.received(0);
            }
        };
        feed(&mut connection, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
        connection.batch(false, None, Caps::default());
        connection.batch_statement(1, b"\0\0insert into t values (1)\0\0\0");
        connection.batch_items(&ITEM.repeat(2_500), BatchEnd::Last);
        let answers = [
            &b"1\0\0\0\x04"[..],
            &b"2\0\0\0\x04C\0\0\0\x0fINSERT 0 1\0".repeat(2_500),
            b"Z\0\0\0\x05I",
        ];
        let ended = feed(&mut connection, &answers.concat());
        assert_eq!(ended, ended::READY_IDLE);
        assert_eq!(pieces, [1_000, 1_000, 500]);
    }
}
