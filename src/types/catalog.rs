//! Which types are made of which: the built-in arrays and ranges, and the types of a database as its catalog describes
//! them.
//!
//! Only its server knows what an OID from 10,000 on means. JavaScript asks the server on first need and passes the
//! answer to [`Types::new`]. A type that is not described has no binary form here, and arrives as the server's text.
//! The same holds for a base type of which only the text is known. Arrays of such a type are split.

use super::rare::Rare;
use super::{Scalar, oid};
use crate::boundary::types as codes;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// `FirstGenbkiObjectId`: a type with a smaller OID has the same OID on every server.
const FIRST_OF_A_DATABASE: u32 = 10_000;

/// Maximum depth of domains, arrays and composites in a description.
const MAX_DEPTH: u32 = 32;

/// Maximum number of parts of a type, repeated parts included: thirty composites, each made of two of the next, have a
/// billion.
const MOST_PARTS: u32 = 100_000;

/// How a type's binary form is made of those of other types.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Scalar(Scalar),
    /// A base type of which only the text is known, by the delimiter of its arrays (pg_type.typdelim).
    Text(u8),
    /// The element.
    Array(u32),
    /// int2vector and oidvector, by their element: an array in binary, but not in text.
    Vector(u32),
    /// The subtype.
    Range(u32),
    /// The range.
    Multirange(u32),
    /// The attributes; `None` for `record`, whose values describe their own fields.
    Composite(Option<&'a [Attribute]>),
}

/// The type of an attribute, and the start and end of its name in `names`.
pub(super) type Attribute = [u32; 3];

/// The known types of a database, and how its server writes times. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Types {
    tables: Option<Rc<Tables>>,
    float_times: bool,
}

#[derive(Debug)]
struct Tables {
    types: Vec<u32>,
    attributes: Vec<u32>,
    names: Vec<u8>,
}

impl Types {
    /// Takes the types as the catalog describes them, sorted by OID. A type that is out of order, or that refers to an
    /// entry that does not exist, counts as unknown. The layout of `types`:
    ///
    /// ```text
    /// OID, SAME, OID whose binary form it has (a domain's base, text for an enum), 0
    /// OID, ARRAY, element of an array, 0
    /// OID, RANGE, subtype of a range, 0
    /// OID, MULTIRANGE, range of a multirange, 0
    /// OID, COMPOSITE, number of a composite's attributes, index of the first in `attributes`
    /// OID, TEXT, delimiter of its arrays, 0
    /// ```
    /// The words are numbers of [`codes`]. An attribute is the OID of its type, and the start and end of its name in
    /// `names`.
    pub fn new(types: &[u32], attributes: &[u32], names: &str) -> Types {
        Types {
            tables: Some(Rc::new(Tables {
                types: types.to_vec(),
                attributes: attributes.to_vec(),
                names: names.as_bytes().to_vec(),
            })),
            float_times: false,
        }
    }

    /// The same types on a server whose times in binary are, or may be, seconds as float8. There we ask for text,
    /// except for types whose binary form is the same everywhere: bool, integers, and floats, whose text may lack
    /// digits.
    #[must_use]
    pub fn with_float_times(self, float_times: bool) -> Types {
        Types {
            float_times,
            ..self
        }
    }

    /// Returns whether it is a type of a database that has not been described.
    #[cfg(feature = "replication")]
    pub(crate) fn is_unknown(&self, type_oid: u32) -> bool {
        type_oid >= FIRST_OF_A_DATABASE && self.kind(type_oid).is_none()
    }

    /// Returns whether binary times cannot be trusted.
    pub fn float_times(&self) -> bool {
        self.float_times
    }

    /// Returns the name of an attribute.
    pub(super) fn name(&self, &[_, start, end]: &Attribute) -> &[u8] {
        let name = self
            .tables
            .as_ref()
            .and_then(|tables| tables.names.get(start as usize..end as usize));
        name.unwrap_or_default()
    }

    /// Returns whether Bind should ask for the binary form of a type: whether we can read it and everything it is made
    /// of.
    pub fn has_binary_encoder(&self, type_oid: u32) -> bool {
        if !self.float_times {
            return self.is_readable(type_oid);
        }
        match self.kind(type_oid) {
            Some(Kind::Scalar(scalar)) => scalar.is_same_everywhere(),
            _ => self.is_made_of(type_oid, no_time) && !self.is_made_of(type_oid, no_float),
        }
    }

    /// Returns whether there is a decoder for a type and everything it is made of.
    pub(super) fn is_readable(&self, type_oid: u32) -> bool {
        self.is_made_of(type_oid, |_| true)
    }

    /// Returns whether a type is an array of a type of which only the text is known.
    pub(super) fn is_array_of_text(&self, type_oid: u32) -> bool {
        let Some(Kind::Array(element)) = self.kind(type_oid) else {
            return false;
        };
        matches!(self.kind(element), Some(Kind::Text(_)))
    }

    /// Returns whether neither form of a type can be trusted: not binary because of its times, not text because its
    /// floats may lack digits.
    pub(super) fn is_ambiguous(&self, type_oid: u32) -> bool {
        self.float_times
            && !self.is_made_of(type_oid, no_time)
            && !self.is_made_of(type_oid, no_float)
    }

    /// Returns whether a type can be read and is made only of scalars for which `fits` is true.
    fn is_made_of(&self, type_oid: u32, fits: fn(Scalar) -> bool) -> bool {
        self.walk(type_oid, fits, MAX_DEPTH, &mut { MOST_PARTS })
    }

    /// The first `false` ends the walk, so `parts` bounds it.
    fn walk(&self, type_oid: u32, fits: fn(Scalar) -> bool, depth: u32, parts: &mut u32) -> bool {
        let (Some(depth), Some(others)) = (depth.checked_sub(1), parts.checked_sub(1)) else {
            return false;
        };
        *parts = others;
        match self.kind(type_oid) {
            Some(Kind::Scalar(scalar)) => fits(scalar),
            Some(Kind::Range(of)) => self.subtype(of).is_some_and(fits),
            Some(Kind::Array(of) | Kind::Vector(of) | Kind::Multirange(of)) => {
                self.walk(of, fits, depth, parts)
            }
            Some(Kind::Composite(attributes)) => attributes
                .unwrap_or_default()
                .iter()
                .all(|[type_oid, ..]| self.walk(*type_oid, fits, depth, parts)),
            Some(Kind::Text(_)) | None => false,
        }
    }

    /// Returns whether the text of a type, or of a part of it, differs under other settings or after an `ALTER TYPE`.
    pub(super) fn has_other_texts(&self, type_oid: u32) -> bool {
        let mut type_oid = type_oid;
        for _ in 0..MAX_DEPTH {
            match self.kind(type_oid) {
                Some(Kind::Array(of) | Kind::Range(of) | Kind::Multirange(of)) => type_oid = of,
                Some(Kind::Composite(_)) => return true,
                Some(Kind::Scalar(
                    Scalar::Date | Scalar::Timestamp | Scalar::Timestamptz | Scalar::Interval,
                )) => return true,
                _ => return false,
            }
        }
        false
    }

    /// Returns the subtype of a range, if the subtype's text form can be derived from its JSON.
    pub(super) fn subtype(&self, type_oid: u32) -> Option<Scalar> {
        match self.kind(type_oid) {
            Some(Kind::Scalar(
                Scalar::Bool
                | Scalar::Char
                | Scalar::Json
                | Scalar::Jsonb
                | Scalar::Rare(Rare::Hstore),
            )) => None,
            Some(Kind::Scalar(scalar)) => Some(scalar),
            _ => None,
        }
    }

    pub(super) fn kind(&self, type_oid: u32) -> Option<Kind<'_>> {
        let mut type_oid = type_oid;
        for _ in 0..MAX_DEPTH {
            if let Some(kind) = built_in(type_oid) {
                return Some(kind);
            }
            if type_oid < FIRST_OF_A_DATABASE {
                return Some(Kind::Text(b','));
            }
            let tables = self.tables.as_deref()?;
            let (types, _) = tables.types.as_chunks::<4>();
            let at = types.binary_search_by_key(&type_oid, |[known, ..]| *known);
            let [_, code, of, first] = *types.get(at.ok()?)?;
            return Some(match code {
                codes::SAME => {
                    type_oid = of;
                    continue;
                }
                codes::ARRAY => Kind::Array(of),
                codes::TEXT => Kind::Text(of as u8),
                codes::RANGE => Kind::Range(of),
                codes::MULTIRANGE => Kind::Multirange(of),
                codes::COMPOSITE => {
                    let (attributes, _) = tables.attributes.as_chunks::<3>();
                    let (_, attributes) = attributes.split_at_checked(first as usize)?;
                    Kind::Composite(Some(attributes.get(..of as usize)?))
                }
                _ => return None,
            });
        }
        None
    }
}

fn no_time(scalar: Scalar) -> bool {
    !matches!(
        scalar,
        Scalar::Time | Scalar::Timetz | Scalar::Timestamp | Scalar::Timestamptz | Scalar::Interval
    )
}

fn no_float(scalar: Scalar) -> bool {
    !matches!(scalar, Scalar::Float4 | Scalar::Float8)
}

fn built_in(type_oid: u32) -> Option<Kind<'static>> {
    if let Some(scalar) = Scalar::from_oid(type_oid) {
        return Some(Kind::Scalar(scalar));
    }
    if let Some(element) = pair(oid::ARRAYS, type_oid) {
        return Some(match type_oid {
            oid::INT2VECTOR | oid::OIDVECTOR => Kind::Vector(element),
            _ => Kind::Array(element),
        });
    }
    if let Some(subtype) = pair(oid::RANGES, type_oid) {
        return Some(Kind::Range(subtype));
    }
    if let Some(range) = pair(oid::MULTIRANGES, type_oid) {
        return Some(Kind::Multirange(range));
    }
    if let Some(element) = pair(oid::ARRAYS_OF_TEXT, type_oid) {
        return Some(Kind::Array(element));
    }
    (type_oid == oid::RECORD).then_some(Kind::Composite(None))
}

/// Returns the type that is paired with `type_oid` in a sorted list.
#[inline(never)]
fn pair(list: &[(u16, u16)], type_oid: u32) -> Option<u32> {
    let at = list.binary_search_by_key(&type_oid, |(one, _)| u32::from(*one));
    list.get(at.ok()?).map(|(_, other)| u32::from(*other))
}
