//! The built-in types with a binary form of their own: the OIDs of each, and the family that writes it.
//!
//! Types made of other types are in `catalog.rs`. Types that few columns have are in `rare.rs`.

use super::output::Writer;
use super::rare::Rare;
use super::{AsStrings, Outcome, oid};
use super::{boolean, bytea, datetime, float, integer, interval, json, numeric, text, uuid};

/// Types with a binary form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Numeric,
    Text,
    Char,
    Bytea,
    Uuid,
    Date,
    Time,
    Timetz,
    Timestamp,
    Timestamptz,
    Interval,
    Json,
    Jsonb,
    Rare(Rare),
}

impl Scalar {
    pub(super) fn from_oid(type_oid: u32) -> Option<Scalar> {
        Some(match type_oid {
            oid::BOOL => Scalar::Bool,
            oid::INT2 => Scalar::Int2,
            oid::INT4 => Scalar::Int4,
            oid::INT8 => Scalar::Int8,
            oid::OID => Scalar::Oid,
            oid::FLOAT4 => Scalar::Float4,
            oid::FLOAT8 => Scalar::Float8,
            oid::NUMERIC => Scalar::Numeric,
            oid::TEXT
            | oid::VARCHAR
            | oid::BPCHAR
            | oid::NAME
            | oid::UNKNOWN
            | oid::REFCURSOR
            | oid::CSTRING => Scalar::Text,
            oid::CHAR => Scalar::Char,
            oid::BYTEA => Scalar::Bytea,
            oid::UUID => Scalar::Uuid,
            oid::DATE => Scalar::Date,
            oid::TIME => Scalar::Time,
            oid::TIMETZ => Scalar::Timetz,
            oid::TIMESTAMP => Scalar::Timestamp,
            oid::TIMESTAMPTZ => Scalar::Timestamptz,
            oid::INTERVAL => Scalar::Interval,
            oid::JSON => Scalar::Json,
            oid::JSONB => Scalar::Jsonb,
            _ => return Rare::from_oid(type_oid).map(Scalar::Rare),
        })
    }

    /// Returns whether every server that has ever spoken the protocol writes this type in binary in the same way.
    pub(super) fn is_same_everywhere(self) -> bool {
        use Scalar as S;
        matches!(
            self,
            S::Bool | S::Int2 | S::Int4 | S::Int8 | S::Oid | S::Float4 | S::Float8
        )
    }

    pub(super) fn is_json(self) -> bool {
        matches!(self, Scalar::Json | Scalar::Jsonb)
    }

    /// Appends the value, between quotes if `strings` says so.
    #[inline(never)]
    pub(super) fn append_as(
        self,
        value: &[u8],
        strings: AsStrings,
        out: &mut Writer<'_>,
    ) -> Outcome {
        if strings.quotes_number(self) {
            quoted(out, |out| self.append(value, out))
        } else {
            self.append(value, out)
        }
    }

    #[inline(never)]
    pub(super) fn append(self, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        match self {
            Scalar::Bool => lent(out, value, boolean::append),
            Scalar::Int2 => lent(out, value, integer::append_int2),
            Scalar::Int4 => lent(out, value, integer::append_int4),
            Scalar::Int8 => lent(out, value, integer::append_int8),
            Scalar::Oid => lent(out, value, integer::append_oid),
            Scalar::Float4 => lent(out, value, float::append_float4),
            Scalar::Float8 => lent(out, value, float::append_float8),
            Scalar::Numeric => lent(out, value, numeric::append),
            Scalar::Text => text::append(out, value),
            Scalar::Char => text::append_char(out, value),
            Scalar::Bytea => lent(out, value, bytea::append),
            Scalar::Uuid => lent(out, value, uuid::append),
            Scalar::Date => lent(out, value, datetime::append_date),
            Scalar::Time => lent(out, value, datetime::append_time),
            Scalar::Timetz => lent(out, value, datetime::append_timetz),
            Scalar::Timestamp => lent(out, value, datetime::append_timestamp),
            Scalar::Timestamptz => lent(out, value, datetime::append_timestamptz),
            Scalar::Interval => lent(out, value, interval::append),
            Scalar::Json => lent(out, value, json::append),
            Scalar::Jsonb => lent(out, value, |out, value| {
                json::append_jsonb(out, value, value)
            }),
            Scalar::Rare(rare) => rare.append(value, out),
        }
    }
}

/// Calls a family's function, inlined, with a writer of its own; see [`Writer`].
#[inline(always)]
fn lent(
    out: &mut Writer<'_>,
    value: &[u8],
    append: impl Fn(&mut Writer<'_>, &[u8]) -> Outcome,
) -> Outcome {
    out.lend(|out| append(out, value))
}

/// Puts what `append` writes between quotes, unless it is already a string (NaN and the infinities).
pub(super) fn quoted(
    out: &mut Writer<'_>,
    append: impl FnOnce(&mut Writer<'_>) -> Outcome,
) -> Outcome {
    let start = out.position();
    out.put(b"\"");
    append(out)?;
    let text = out.written_since(start);
    if let [_, b'"', ..] = text {
        text.copy_within(1.., 0);
        out.truncate(out.position() - 1);
    } else {
        out.put(b"\"");
    }
    Ok(())
}
