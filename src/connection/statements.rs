//! Which prepared statements this connection has on the server: a bounded, least-recently-used set of names.
//!
//! A shape is executed unnamed the first time and named from its second use on, so that one-off queries cost no Close
//! and cannot evict frequent ones. An evicted statement is closed in front of the next flight:
//!
//! ```text
//! use 1: Parse ""   Bind ""        use 2: Parse "p1" Bind "p1"        use 3: Bind "p1"        pushed out: Close "p1" …
//! ```
//! Behind a pooler in transaction mode a name may be missing on the next server connection (SQLSTATE 26000): from then
//! on every statement is unnamed. Names are never reused and carry a random prefix, so the names of two clients cannot
//! collide.

use crate::protocol::writer::decimal;
use alloc::string::String;
use alloc::vec::Vec;

/// How an execution refers to its statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The number that [`Statements::name`] turns into a name; 0: the unnamed statement.
    pub number: u32,
    /// Parse must come first, because the server does not have the statement.
    pub parse: bool,
}

impl Use {
    /// Parse and Bind the unnamed statement.
    pub const UNNAMED: Use = Use {
        number: 0,
        parse: true,
    };
}

struct Named {
    shape: u32,
    number: u32,
}

/// The statement cache of one connection. In both lists the most recently used entry is last.
pub struct Statements {
    prefix: String,
    capacity: usize,
    /// Statements are named from the first use on.
    at_first_use: bool,
    counter: u32,
    /// The number of the last portal that was opened with a name.
    portal: u32,
    /// Shapes used once so far, unnamed.
    seen: Vec<u32>,
    named: Vec<Named>,
    closing: Vec<u32>,
}

impl Statements {
    /// An empty cache. With `capacity` 0 every statement stays unnamed.
    pub fn new(prefix: String, capacity: usize) -> Self {
        Statements {
            prefix,
            capacity,
            at_first_use: false,
            counter: 0,
            portal: 0,
            seen: Vec::new(),
            named: Vec::new(),
            closing: Vec::new(),
        }
    }

    /// Names statements at their first use, for callers who know that every statement is used again.
    pub fn name_first_use(&mut self) {
        self.at_first_use = true;
    }

    /// Records one more use of `shape` and returns how to refer to it.
    pub fn touch(&mut self, shape: u32) -> Use {
        self.number(shape, self.at_first_use)
    }

    /// Records a use that refers to the statement in its own way.
    pub fn note_use(&mut self, shape: u32) {
        if !self.at_first_use {
            self.number(shape, false);
        }
    }

    /// Like [`touch`](Self::touch), but names the statement at once, unless the cache is full of `others` statements
    /// that it must not evict.
    pub fn touch_beside(&mut self, shape: u32, others: usize) -> Use {
        if others >= self.capacity && !self.named.iter().any(|entry| entry.shape == shape) {
            return Use::UNNAMED;
        }
        self.number(shape, true)
    }

    fn number(&mut self, shape: u32, at_once: bool) -> Use {
        if self.capacity == 0 {
            return Use::UNNAMED;
        }
        if let Some(entry) = self.take(shape) {
            let number = entry.number;
            self.named.push(entry);
            return Use {
                number,
                parse: false,
            };
        }
        let seen = self.seen.iter().position(|seen| *seen == shape);
        if let (Some(at), false) = (seen, at_once) {
            self.seen.remove(at);
        }
        if at_once || seen.is_some() {
            return Use {
                number: self.admit(shape),
                parse: true,
            };
        }
        if self.seen.len() >= self.capacity {
            self.seen.remove(0);
        }
        self.seen.push(shape);
        Use::UNNAMED
    }

    fn admit(&mut self, shape: u32) -> u32 {
        if self.named.len() >= self.capacity {
            let oldest = self.named.remove(0);
            self.closing.push(oldest.number);
        }
        let number = self.new_number();
        self.named.push(Named { shape, number });
        number
    }

    fn new_number(&mut self) -> u32 {
        self.counter = self.counter.wrapping_add(1);
        self.counter
    }

    /// The name as it appears in messages.
    pub fn name(&self, number: u32) -> Vec<u8> {
        if number == 0 {
            return Vec::new();
        }
        [self.prefix.as_bytes(), decimal(number).as_bytes()].concat()
    }

    /// Names the portal that is about to be opened. Portals and statements have separate name spaces; one counter
    /// serves both.
    pub fn open_portal(&mut self) -> Vec<u8> {
        self.portal = self.new_number();
        self.portal()
    }

    /// The name of the last portal.
    pub fn portal(&self) -> Vec<u8> {
        self.name(self.portal)
    }

    /// Drops the shape's statement. Its Close is sent with the next flight. Closing a statement that the server does
    /// not have is not an error.
    pub fn forget(&mut self, shape: u32) {
        if let Some(entry) = self.take(shape) {
            self.closing.push(entry.number);
        }
    }

    /// Parse failed for this number, or the server skipped it: the statement does not exist. Its shape may have another
    /// number by now.
    pub fn parse_failed(&mut self, number: u32) {
        self.named.retain(|entry| entry.number != number);
    }

    #[inline(never)]
    fn take(&mut self, shape: u32) -> Option<Named> {
        let at = self.named.iter().position(|entry| entry.shape == shape)?;
        Some(self.named.remove(at))
    }

    /// Whether the server should have the statement of this number.
    pub(super) fn knows(&self, number: u32) -> bool {
        self.named.iter().any(|entry| entry.number == number)
    }

    /// Stops using names: the server does not know a name that was parsed, so something between us switches server
    /// connections.
    pub fn names_are_unsafe(&mut self) {
        self.capacity = 0;
        self.named.clear();
        self.seen.clear();
        self.closing.clear();
    }

    /// Does the same if the pooler was noticed before any statement was used, but not if the caller has asked for
    /// names.
    pub fn no_backend(&mut self) {
        if !self.at_first_use {
            self.names_are_unsafe();
        }
    }

    /// Takes the numbers of the statements to Close in front of the next flight.
    pub fn take_closing(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.closing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(number: u32) -> Use {
        Use {
            number,
            parse: true,
        }
    }

    fn named(number: u32) -> Use {
        Use {
            number,
            parse: false,
        }
    }

    #[test]
    fn names_are_the_prefix_and_a_number() {
        let statements = Statements::new("p".into(), 2);
        assert_eq!(statements.name(0), b"");
        assert_eq!(statements.name(17), b"p17");
        assert_eq!(statements.name(u32::MAX), b"p4294967295");
    }

    #[test]
    fn named_from_the_second_use_and_bound_from_the_third() {
        let mut statements = Statements::new("p".into(), 2);
        assert_eq!(statements.touch(7), Use::UNNAMED);
        assert_eq!(statements.touch(7), parsed(1));
        assert_eq!(statements.touch(7), named(1));
    }

    #[test]
    fn named_from_the_first_use_when_asked() {
        let mut statements = Statements::new("p".into(), 2);
        statements.name_first_use();
        assert_eq!(statements.touch(7), parsed(1));
        assert_eq!(statements.touch(7), named(1));
    }

    #[test]
    fn the_least_recently_used_is_closed_when_one_more_comes() {
        let mut statements = Statements::new("p".into(), 2);
        for shape in [1, 1, 2, 2, 1] {
            statements.touch(shape);
        }
        statements.touch(3);
        assert_eq!(statements.take_closing().len(), 0);
        statements.touch(3);
        assert_eq!(statements.take_closing(), [2]);
        assert_eq!(statements.touch(1), named(1));
        assert_eq!(statements.touch(2), Use::UNNAMED);
    }

    #[test]
    fn one_off_shapes_push_out_nothing() {
        let mut statements = Statements::new("p".into(), 2);
        for shape in [1, 1].into_iter().chain(100..200) {
            statements.touch(shape);
        }
        assert_eq!(statements.touch(1), named(1));
    }

    #[test]
    fn a_forgotten_statement_gets_a_new_name() {
        let mut statements = Statements::new("p".into(), 2);
        statements.touch(1);
        statements.touch(1);
        statements.forget(1);
        assert_eq!(statements.take_closing(), [1]);
        statements.touch(1);
        assert_eq!(statements.touch(1), parsed(2));
    }

    #[test]
    fn a_parse_that_failed_leaves_a_later_name_of_its_shape() {
        let mut statements = Statements::new("p".into(), 1);
        statements.name_first_use();
        let [first, other, second] = [1, 2, 1].map(|shape| statements.touch(shape));
        assert_eq!([first, other, second], [1, 2, 3].map(parsed));
        statements.parse_failed(first.number);
        assert_eq!(statements.touch(1), named(3));
        statements.parse_failed(second.number);
        assert_eq!(statements.touch(1), parsed(4));
    }

    #[test]
    fn unsafe_names_are_given_up() {
        let mut statements = Statements::new("p".into(), 2);
        statements.touch(1);
        statements.touch(1);
        statements.names_are_unsafe();
        assert_eq!(statements.touch(1), Use::UNNAMED);
        assert_eq!(statements.touch(1), Use::UNNAMED);
        assert!(statements.take_closing().is_empty());
    }
}
