//! Which prepared statements this connection has on the server: a bounded, least-recently-used set of names.
//!
//! A shape is executed unnamed the first time and named from its second use on, so that one-off queries cost no Close and
//! cannot push out what is used often. What is pushed out is closed in front of the next flight:
//!
//! ```text
//! use 1: Parse ""   Bind ""        use 2: Parse "p1" Bind "p1"        use 3: Bind "p1"        pushed out: Close "p1" …
//! ```
//! Behind a pooler in transaction mode a name may be missing on the next server connection (SQLSTATE 26000): from then on
//! everything is unnamed. Names are never used twice and carry a random prefix, so two clients cannot meet (pgz's fault 1).

use crate::encode::{Plan, RowForm};
use crate::protocol::writer::decimal;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// How an execution refers to its statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// Parse and Bind the unnamed statement.
    Unnamed,
    /// Parse under this name, then Bind it.
    ParseNamed(Vec<u8>),
    /// Bind this name; it is on the server.
    Named(Vec<u8>),
}

/// A plan and the RowDescription body it was made from: an equal body means equal columns.
struct KnownPlan {
    row_description: Vec<u8>,
    format: RowForm,
    plan: Rc<Plan>,
}

struct Named {
    shape: u32,
    name: Vec<u8>,
    plan: Option<KnownPlan>,
}

/// The statement cache of one connection. Most recently used last, in both lists.
pub struct Statements {
    prefix: Vec<u8>,
    capacity: usize,
    /// Named from the first use on.
    at_first_use: bool,
    counter: u32,
    /// The name of the last portal that was opened by one.
    portal: Vec<u8>,
    /// Used once so far, unnamed.
    seen: Vec<u32>,
    named: Vec<Named>,
    closing: Vec<Vec<u8>>,
}

impl Statements {
    /// `capacity` 0: everything stays unnamed.
    pub fn new(prefix: Vec<u8>, capacity: usize) -> Self {
        Statements {
            prefix,
            capacity,
            at_first_use: false,
            counter: 0,
            portal: Vec::new(),
            seen: Vec::new(),
            named: Vec::new(),
            closing: Vec::new(),
        }
    }

    /// For callers who know that every statement comes again.
    pub fn name_first_use(&mut self) {
        self.at_first_use = true;
    }

    /// Notes one more use of `shape` and says how to refer to it.
    pub fn touch(&mut self, shape: u32) -> Use {
        self.name(shape, self.at_first_use)
    }

    /// The same for one that gets its name at once, beside as many others that must not be pushed out by it.
    pub fn touch_beside(&mut self, shape: u32, others: usize) -> Use {
        if others >= self.capacity && !self.named.iter().any(|entry| entry.shape == shape) {
            return Use::Unnamed;
        }
        self.name(shape, true)
    }

    fn name(&mut self, shape: u32, at_once: bool) -> Use {
        if self.capacity == 0 {
            return Use::Unnamed;
        }
        if let Some(at) = self.named.iter().position(|entry| entry.shape == shape) {
            let entry = self.named.remove(at);
            let name = entry.name.clone();
            self.named.push(entry);
            return Use::Named(name);
        }
        if at_once {
            return Use::ParseNamed(self.admit(shape));
        }
        if let Some(at) = self.seen.iter().position(|seen| *seen == shape) {
            self.seen.remove(at);
            return Use::ParseNamed(self.admit(shape));
        }
        if self.seen.len() >= self.capacity {
            self.seen.remove(0);
        }
        self.seen.push(shape);
        Use::Unnamed
    }

    fn admit(&mut self, shape: u32) -> Vec<u8> {
        if self.named.len() >= self.capacity {
            let oldest = self.named.remove(0);
            self.closing.push(oldest.name);
        }
        let name = self.new_name();
        self.named.push(Named {
            shape,
            name: name.clone(),
            plan: None,
        });
        name
    }

    fn new_name(&mut self) -> Vec<u8> {
        self.counter = self.counter.wrapping_add(1);
        let mut name = self.prefix.clone();
        name.extend_from_slice(decimal(self.counter.into()).as_bytes());
        name
    }

    /// Names the portal that is to be opened. Portals and statements have names of their own each; one counter serves both.
    pub fn open_portal(&mut self) -> &[u8] {
        self.portal = self.new_name();
        &self.portal
    }

    /// The name of the last one.
    pub fn portal(&self) -> &[u8] {
        &self.portal
    }

    /// Drops the shape's statement; its Close goes out with the next flight. Closing what the server does not have is no error there.
    pub fn forget(&mut self, shape: u32) {
        if let Some(at) = self.named.iter().position(|entry| entry.shape == shape) {
            let entry = self.named.remove(at);
            self.closing.push(entry.name);
        }
    }

    /// The Parse of `shape` failed: there is no such statement.
    pub fn parse_failed(&mut self, shape: u32) {
        self.named.retain(|entry| entry.shape != shape);
    }

    /// Whether this name should be on the server.
    pub(super) fn knows(&self, name: &[u8]) -> bool {
        self.named.iter().any(|entry| entry.name == name)
    }

    /// The server does not know a name that was parsed: something between us changes server connections.
    pub fn names_are_unsafe(&mut self) {
        self.capacity = 0;
        self.named.clear();
        self.seen.clear();
        self.closing.clear();
    }

    /// The same, where it was seen before any statement was used; not where the caller has asked for names.
    pub fn no_backend(&mut self) {
        if !self.at_first_use {
            self.names_are_unsafe();
        }
    }

    /// Names to Close in front of the next flight.
    pub fn take_closing(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.closing)
    }

    /// The plan made for this shape from the same columns, if there is one.
    pub(super) fn plan(
        &self,
        shape: u32,
        row_description: &[u8],
        format: RowForm,
    ) -> Option<Rc<Plan>> {
        let known = self
            .named
            .iter()
            .rev()
            .find(|entry| entry.shape == shape)?
            .plan
            .as_ref()?;
        (known.row_description == row_description && known.format == format)
            .then(|| Rc::clone(&known.plan))
    }

    /// Plans were made with what was known of types then.
    pub(super) fn forget_plans(&mut self) {
        for entry in &mut self.named {
            entry.plan = None;
        }
    }

    /// Keeps a plan with the shape's named statement; does nothing for an unnamed one.
    pub(super) fn keep_plan(
        &mut self,
        shape: u32,
        row_description: &[u8],
        format: RowForm,
        plan: &Rc<Plan>,
    ) {
        if let Some(entry) = self
            .named
            .iter_mut()
            .rev()
            .find(|entry| entry.shape == shape)
        {
            entry.plan = Some(KnownPlan {
                row_description: row_description.to_vec(),
                format,
                plan: Rc::clone(plan),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_from_the_second_use_and_bound_from_the_third() {
        let mut statements = Statements::new(b"p".to_vec(), 2);
        assert_eq!(statements.touch(7), Use::Unnamed);
        assert_eq!(statements.touch(7), Use::ParseNamed(b"p1".to_vec()));
        assert_eq!(statements.touch(7), Use::Named(b"p1".to_vec()));
    }

    #[test]
    fn named_from_the_first_use_when_asked() {
        let mut statements = Statements::new(b"p".to_vec(), 2);
        statements.name_first_use();
        assert_eq!(statements.touch(7), Use::ParseNamed(b"p1".to_vec()));
        assert_eq!(statements.touch(7), Use::Named(b"p1".to_vec()));
    }

    #[test]
    fn the_least_recently_used_is_closed_when_one_more_comes() {
        let mut statements = Statements::new(b"p".to_vec(), 2);
        for shape in [1, 1, 2, 2, 1] {
            statements.touch(shape);
        }
        statements.touch(3);
        assert_eq!(statements.take_closing().len(), 0);
        statements.touch(3);
        assert_eq!(statements.take_closing(), [b"p2".to_vec()]);
        assert_eq!(statements.touch(1), Use::Named(b"p1".to_vec()));
        assert_eq!(statements.touch(2), Use::Unnamed);
    }

    #[test]
    fn one_off_shapes_push_out_nothing() {
        let mut statements = Statements::new(b"p".to_vec(), 2);
        for shape in [1, 1].into_iter().chain(100..200) {
            statements.touch(shape);
        }
        assert_eq!(statements.touch(1), Use::Named(b"p1".to_vec()));
    }

    #[test]
    fn a_forgotten_statement_gets_a_new_name() {
        let mut statements = Statements::new(b"p".to_vec(), 2);
        statements.touch(1);
        statements.touch(1);
        statements.forget(1);
        assert_eq!(statements.take_closing(), [b"p1".to_vec()]);
        statements.touch(1);
        assert_eq!(statements.touch(1), Use::ParseNamed(b"p2".to_vec()));
    }

    #[test]
    fn unsafe_names_are_given_up() {
        let mut statements = Statements::new(b"p".to_vec(), 2);
        statements.touch(1);
        statements.touch(1);
        statements.names_are_unsafe();
        assert_eq!(statements.touch(1), Use::Unnamed);
        assert_eq!(statements.touch(1), Use::Unnamed);
        assert!(statements.take_closing().is_empty());
    }
}
