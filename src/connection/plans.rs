//! Makes the plan for encoding a result's rows from its columns. All conversations that receive rows use it.
//!
//! Plans are cached by shape, whether or not the statement has a name: behind a pooler every statement is unnamed, and
//! making a plan costs more than the rest of a small query. Must not know which message described the columns.

use super::Context;
use super::event::Event;
use super::limits::RowSink;
use crate::encode::{ColumnDescription, Plan, RowForm};
use crate::protocol::backend::RowDescription;
use crate::types::UnknownBinary;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// Maximum total [`KnownPlan::cost`] of one connection's plans: about a thousand plans of a few columns, or two plans
/// with 1,600 columns, the maximum of a table.
const MOST_BYTES: usize = 256 << 10;

/// The shape of results that arrive only once: those of a simple query.
const NO_SHAPE: u32 = 0;

/// The cost of a plan in addition to its RowDescription.
const OVERHEAD: usize = 128;

/// A plan and the RowDescription body it was made from: equal bodies mean equal columns.
struct KnownPlan {
    shape: u32,
    row_description: Vec<u8>,
    form: RowForm,
    plan: Rc<Plan>,
}

impl KnownPlan {
    /// The plan's share of [`MOST_BYTES`]. The plan itself is about four times as large as the RowDescription.
    fn cost(&self) -> usize {
        self.row_description.len().saturating_add(OVERHEAD)
    }
}

/// The plans of one connection, one per shape. The most recently used is last; the least recently used are evicted when
/// there is no room.
#[derive(Default)]
pub(super) struct Plans {
    known: Vec<KnownPlan>,
    /// Total cost of all plans.
    bytes: usize,
}

impl Plans {
    /// Returns the plan that was made for this shape if the columns and the row form are still the same.
    fn get(&mut self, shape: u32, row_description: &[u8], form: RowForm) -> Option<Rc<Plan>> {
        let at = self.place(shape)?;
        let found = self.known.get(at)?;
        if found.row_description != row_description || found.form != form {
            return None;
        }
        let found = self.known.remove(at);
        let plan = Rc::clone(&found.plan);
        self.known.push(found);
        Some(plan)
    }

    /// Stores a plan and replaces the shape's previous one. A plan that is larger than the whole cache is not stored.
    fn keep(&mut self, new: KnownPlan) {
        if let Some(at) = self.place(new.shape) {
            self.remove(at);
        }
        let cost = new.cost();
        if cost > MOST_BYTES {
            return;
        }
        while self.bytes.saturating_add(cost) > MOST_BYTES {
            self.remove(0);
        }
        self.bytes = self.bytes.saturating_add(cost);
        self.known.push(new);
    }

    /// Drops all plans: they were made with an older description of the types.
    pub fn clear(&mut self) {
        *self = Plans::default();
    }

    /// Searches from the end, because recently used plans are requested most.
    fn place(&self, shape: u32) -> Option<usize> {
        self.known.iter().rposition(|known| known.shape == shape)
    }

    fn remove(&mut self, at: usize) {
        let removed = self.known.remove(at);
        self.bytes = self.bytes.saturating_sub(removed.cost());
    }
}

impl Context {
    /// Prepares `sink` for rows of these columns. Returns whether they are the columns that the shape had before, or
    /// `None` if one of them has no decoder; the caller has been told by an event.
    pub(super) fn plan(
        &mut self,
        shape: u32,
        columns: RowDescription<'_>,
        sink: &mut RowSink,
    ) -> Option<bool> {
        let Some(form) = sink.format else {
            return Some(false);
        };
        sink.plan = self.plans.get(shape, columns.body(), form);
        if sink.plan.is_some() {
            return Some(true);
        }
        let plan = Rc::clone(self.new_plan(columns, 0, form, sink)?);
        if shape != NO_SHAPE {
            self.plans.keep(KnownPlan {
                shape,
                row_description: columns.body().to_vec(),
                form,
                plan,
            });
        }
        Some(false)
    }

    /// Does the same for COPY data in binary, which are rows of the columns that were described last. A sink that wants
    /// no rows stays without a plan.
    pub(super) fn plan_copy(&mut self, sink: &mut RowSink) -> Option<()> {
        let described = core::mem::take(&mut self.described);
        if let Some(form) = sink.format
            && let Ok(columns) = RowDescription::parse(&described)
        {
            self.new_plan(columns, 1, form, sink)?;
        }
        self.described = described;
        Some(())
    }

    /// Makes the plan. `format_code`: the lowest format code of a column, whatever the column says.
    fn new_plan<'a>(
        &mut self,
        columns: RowDescription<'_>,
        format_code: i16,
        form: RowForm,
        sink: &'a mut RowSink,
    ) -> Option<&'a Rc<Plan>> {
        let columns = columns.iter().map(|column| ColumnDescription {
            name: column.name,
            type_oid: column.type_oid,
            format_code: column.format_code.max(format_code),
        });
        match Plan::with_types(&columns.collect::<Vec<_>>(), form, &self.types) {
            Ok(mut plan) => {
                if sink.keeps_unread {
                    plan.keep_unread();
                }
                Some(sink.plan.insert(Rc::new(plan)))
            }
            Err(UnknownBinary { type_oid }) => {
                sink.discard = true;
                self.events.push(Event::ShapeChanged { type_oid });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::RowFormat;

    fn known(shape: u32, row_description: &[u8], form: RowForm) -> KnownPlan {
        KnownPlan {
            shape,
            row_description: row_description.to_vec(),
            form,
            plan: Rc::new(Plan::new(core::iter::empty(), form).unwrap()),
        }
    }

    #[test]
    fn only_for_the_same_columns_in_the_same_form() {
        let (form, other) = (RowFormat::Ndjson.into(), RowFormat::Csv.into());
        let mut plans = Plans::default();
        plans.keep(known(1, b"a", form));
        assert!(plans.get(1, b"a", form).is_some());
        assert!(plans.get(2, b"a", form).is_none());
        assert!(plans.get(1, b"b", form).is_none());
        assert!(plans.get(1, b"a", other).is_none());
        plans.keep(known(1, b"b", other));
        assert!(plans.get(1, b"a", form).is_none());
        assert!(plans.get(1, b"b", other).is_some());
        plans.clear();
        assert!(plans.get(1, b"b", other).is_none());
    }

    /// The cache is bounded, however many and wide the shapes are, and plans in use stay.
    #[test]
    fn what_is_kept_is_bounded() {
        let form = RowFormat::Ndjson.into();
        let wide = [0; 10_000];
        let mut plans = Plans::default();
        plans.keep(known(1, b"used", form));
        for shape in 2..1_000 {
            assert!(plans.get(1, b"used", form).is_some());
            plans.keep(known(shape, &wide, form));
            let kept: usize = plans.known.iter().map(KnownPlan::cost).sum();
            assert!(kept <= MOST_BYTES && kept == plans.bytes);
        }
        assert_eq!(plans.known.len(), 1 + MOST_BYTES / (wide.len() + OVERHEAD));
        plans.keep(known(2, &[0; MOST_BYTES], form));
        assert!(plans.get(2, &[0; MOST_BYTES], form).is_none());
        assert!(plans.get(1, b"used", form).is_some());
        assert!(plans.get(999, &wide, form).is_some());
    }
}
