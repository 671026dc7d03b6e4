//! From the columns of a result to the plan by which its rows are written, for every conversation that awaits rows.
//!
//! Knows which plan the statement cache has kept. Must not know which message told of the columns.

use super::Context;
use super::event::Event;
use super::limits::RowSink;
use crate::encode::{ColumnDescription, Plan, RowForm};
use crate::protocol::backend::RowDescription;
use crate::types::UnknownBinary;
use alloc::rc::Rc;
use alloc::vec::Vec;

impl Context {
    /// Readies `sink` for rows of these columns; whether they are those that the shape had before. `None`: there is no decoder for one of them, which
    /// the caller has been told.
    pub(super) fn plan(
        &mut self,
        shape: u32,
        columns: RowDescription<'_>,
        sink: &mut RowSink,
    ) -> Option<bool> {
        let Some(format) = sink.format else {
            return Some(false);
        };
        sink.plan = self.statements.plan(shape, columns.body(), format);
        if sink.plan.is_some() {
            return Some(true);
        }
        let plan = self.new_plan(columns, 0, format, sink)?;
        self.statements
            .keep_plan(shape, columns.body(), format, plan);
        Some(false)
    }

    /// The same for data of COPY in binary, which are rows of the columns that were described last. A sink that wants none stays without a plan.
    pub(super) fn plan_copy(&mut self, sink: &mut RowSink) -> Option<()> {
        let described = core::mem::take(&mut self.described);
        if let Some(format) = sink.format
            && let Ok(columns) = RowDescription::parse(&described)
        {
            self.new_plan(columns, 1, format, sink)?;
        }
        self.described = described;
        Some(())
    }

    /// `format_code`: at least this, whatever the columns say.
    fn new_plan<'a>(
        &mut self,
        columns: RowDescription<'_>,
        format_code: i16,
        format: RowForm,
        sink: &'a mut RowSink,
    ) -> Option<&'a Rc<Plan>> {
        let columns = columns.iter().map(|column| ColumnDescription {
            name: column.name,
            type_oid: column.type_oid,
            format_code: column.format_code.max(format_code),
        });
        match Plan::with_types(&columns.collect::<Vec<_>>(), format, &self.types) {
            Ok(plan) => Some(sink.plan.insert(Rc::new(plan))),
            Err(UnknownBinary { type_oid }) => {
                sink.discard = true;
                self.events.push(Event::ShapeChanged { type_oid });
                None
            }
        }
    }
}
