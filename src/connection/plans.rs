//! From the columns of a result to the plan by which its rows are written, for every conversation that awaits rows.
//!
//! Plans are kept by shape, whether its statement has a name or not: behind a pooler every statement is unnamed, and
//! making a plan costs more than the rest of a small query. Must not know which message told of the columns.

use super::Context;
use super::event::Event;
use super::limits::RowSink;
use crate::encode::{ColumnDescription, Plan, RowForm};
use crate::protocol::backend::RowDescription;
use crate::types::UnknownBinary;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// What one connection keeps, by [`KnownPlan::cost`]: some thousand plans of a few columns, or two of a table with as
/// many as PostgreSQL allows.
const MOST_BYTES: usize = 256 << 10;

/// The shape of what comes once only: the results of a simple query.
const NO_SHAPE: u32 = 0;

/// Of each plan, beside its RowDescription.
const OVERHEAD: usize = 128;

/// A plan and the RowDescription body it was made from: an equal body means equal columns.
struct KnownPlan {
    shape: u32,
    row_description: Vec<u8>,
    form: RowForm,
    plan: Rc<Plan>,
}

impl KnownPlan {
    /// What it counts of [`MOST_BYTES`]. The plan itself is some four times as large as the RowDescription.
    fn cost(&self) -> usize {
        self.row_description.len().saturating_add(OVERHEAD)
    }
}

/// The plans of one connection, one for a shape. Most recently used last; the others go when there is no room.
#[derive(Default)]
pub(super) struct Plans {
    known: Vec<KnownPlan>,
    /// The costs of all.
    bytes: usize,
}

impl Plans {
    /// The plan that was made for this shape, if the columns and what is asked of the rows are the same now.
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

    /// Keeps a plan in the place of the shape's last one. One that is larger than all that may be kept is not.
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

    /// All were made with what was known of types then.
    pub fn clear(&mut self) {
        *self = Plans::default();
    }

    /// Those that were used last are asked for most.
    fn place(&self, shape: u32) -> Option<usize> {
        self.known.iter().rposition(|known| known.shape == shape)
    }

    fn remove(&mut self, at: usize) {
        let removed = self.known.remove(at);
        self.bytes = self.bytes.saturating_sub(removed.cost());
    }
}

impl Context {
    /// Readies `sink` for rows of these columns; whether they are those that the shape had before. `None`: there is no
    /// decoder for one of them, which the caller has been told.
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

    /// The same for data of COPY in binary, which are rows of the columns that were described last. A sink that wants
    /// none stays without a plan.
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

    /// `format_code`: at least this, whatever the columns say.
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

    /// However many shapes there are and however wide; those that are used stay.
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
