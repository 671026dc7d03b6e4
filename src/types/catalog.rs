//! Which type is made of which: the built-in arrays and ranges, and the types of a database as its catalog describes them.
//!
//! What an OID from 10,000 on means, only its server knows: JavaScript asks there on first need and says so by [`Types::define`]. A
//! type that is not described has no binary form here, and comes as the server's text.

use super::rare::Rare;
use super::{Scalar, oid};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// Domains, arrays and composites do not nest deeper in a description.
const MAX_DEPTH: u32 = 32;

/// How a type's binary form is made of others'.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Scalar(Scalar),
    /// The element.
    Array(u32),
    /// The subtype.
    Range(u32),
    /// The range.
    Multirange(u32),
    /// Names and types of the attributes; `None` of `record`, whose values say it themselves.
    Composite(Option<&'a [Attribute]>),
}

#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub name: Box<[u8]>,
    pub type_oid: u32,
}

#[derive(Clone, Debug)]
struct Definition {
    type_oid: u32,
    code: u32,
    /// The type that it is made of.
    of: u32,
    attributes: Box<[Attribute]>,
}

/// Codes of [`Types::define`].
const SAME: u32 = 0;
const ARRAY: u32 = 1;
const RANGE: u32 = 2;
const MULTIRANGE: u32 = 3;
const COMPOSITE: u32 = 4;

/// What is known of a database's own types. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Types(Option<Rc<Vec<Definition>>>);

impl Types {
    /// Describes types; one that is known already is described anew. `numbers`, per type:
    ///
    /// ```text
    /// OID, 0, OID whose binary form it has (a domain's base, text for an enum)
    /// OID, 1, element of an array      OID, 2, subtype of a range      OID, 3, range of a multirange
    /// OID, 4, n, n OIDs: a composite, whose attributes are the next n of `names`, each with a NUL behind it
    /// ```
    /// What is cut off is not described.
    pub fn define(&mut self, numbers: &[u32], names: &str) {
        let all = Rc::make_mut(self.0.get_or_insert_default());
        let mut names = names.as_bytes().split(|byte| *byte == 0);
        let mut rest = numbers;
        while let [type_oid, code, of, behind @ ..] = rest {
            rest = behind;
            let mut attributes = Vec::new();
            if *code == COMPOSITE {
                let Some((types, behind)) = rest.split_at_checked(*of as usize) else {
                    return;
                };
                rest = behind;
                attributes.extend(
                    types
                        .iter()
                        .zip(&mut names)
                        .map(|(type_oid, name)| Attribute {
                            name: name.into(),
                            type_oid: *type_oid,
                        }),
                );
            }
            let definition = Definition {
                type_oid: *type_oid,
                code: *code,
                of: *of,
                attributes: attributes.into(),
            };
            match all.binary_search_by_key(type_oid, |known| known.type_oid) {
                Ok(at) => {
                    if let Some(known) = all.get_mut(at) {
                        *known = definition;
                    }
                }
                Err(at) => all.insert(at, definition),
            }
        }
    }

    /// Whether Bind should ask for the binary form of a type: we can read it, and all that it is made of.
    pub fn has_binary_encoder(&self, type_oid: u32) -> bool {
        self.is_readable(type_oid, MAX_DEPTH)
    }

    fn is_readable(&self, type_oid: u32, depth: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match self.kind(type_oid) {
            Some(Kind::Scalar(_)) => true,
            Some(Kind::Range(of)) => self.subtype(of).is_some(),
            Some(Kind::Array(of) | Kind::Multirange(of)) => self.is_readable(of, depth),
            Some(Kind::Composite(attributes)) => attributes
                .unwrap_or_default()
                .iter()
                .all(|attribute| self.is_readable(attribute.type_oid, depth)),
            None => false,
        }
    }

    /// The subtype of a range, if its text form can be told from its JSON.
    pub(super) fn subtype(&self, type_oid: u32) -> Option<Scalar> {
        match self.kind(type_oid) {
            Some(Kind::Scalar(Scalar::Char | Scalar::Rare(Rare::Hstore))) => None,
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
            let all = self.0.as_deref()?;
            let at = all.binary_search_by_key(&type_oid, |known| known.type_oid);
            let definition = all.get(at.ok()?)?;
            return Some(match definition.code {
                SAME => {
                    type_oid = definition.of;
                    continue;
                }
                ARRAY => Kind::Array(definition.of),
                RANGE => Kind::Range(definition.of),
                MULTIRANGE => Kind::Multirange(definition.of),
                COMPOSITE => Kind::Composite(Some(&definition.attributes)),
                _ => return None,
            });
        }
        None
    }
}

fn built_in(type_oid: u32) -> Option<Kind<'static>> {
    if let Some(scalar) = Scalar::from_oid(type_oid) {
        return Some(Kind::Scalar(scalar));
    }
    if let Some(element) = pair(oid::ARRAYS, type_oid) {
        return Some(Kind::Array(element));
    }
    if let Some(subtype) = pair(oid::RANGES, type_oid) {
        return Some(Kind::Range(subtype));
    }
    if let Some(range) = pair(oid::MULTIRANGES, type_oid) {
        return Some(Kind::Multirange(range));
    }
    (type_oid == oid::RECORD).then_some(Kind::Composite(None))
}

/// What stands beside a type in a sorted list.
#[inline(never)]
fn pair(list: &[(u16, u16)], type_oid: u32) -> Option<u32> {
    let at = list.binary_search_by_key(&type_oid, |(one, _)| u32::from(*one));
    list.get(at.ok()?).map(|(_, other)| u32::from(*other))
}
