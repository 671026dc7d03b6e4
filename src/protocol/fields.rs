//! The fields of ErrorResponse and NoticeResponse: a code byte and a string each. A zero byte ends the list.
//!
//! Source: protocol chapter, section "Error and Notice Message Fields". Unknown codes are skipped, as that page asks.

use super::reader::{Malformed, Reader};

/// Code and name of each field, in the order of the documentation; users see these names. `V`, which is never
/// translated, takes precedence over `S` (localised severity). PostgreSQL sends `V` since 9.6; poolers send `S` alone.
const NAMES: [(u8, &str); 17] = [
    (b'V', "severity"),
    (b'C', "code"),
    (b'M', "message"),
    (b'D', "detail"),
    (b'H', "hint"),
    (b'P', "position"),
    (b'p', "internalPosition"),
    (b'q', "internalQuery"),
    (b'W', "where"),
    (b's', "schema"),
    (b't', "table"),
    (b'c', "column"),
    (b'd', "dataType"),
    (b'n', "constraint"),
    (b'F', "file"),
    (b'L', "line"),
    (b'R', "routine"),
];

/// The fields of one ErrorResponse or NoticeResponse, still in the message body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<'a> {
    body: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Fields that we made ourselves: `body` must be valid for [`parse`](Self::parse).
    pub(crate) const fn of(body: &'a [u8]) -> Self {
        Fields { body }
    }

    /// Checks the whole body once, so that the getters below cannot fail.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        while reader.u8()? != 0 {
            reader.string()?;
        }
        reader.end()?;
        Ok(Fields { body })
    }

    /// Name and text of each known field, in wire order. Until the session's encoding is settled, the text may be in
    /// any encoding.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'a [u8])> + use<'a> {
        let untranslated = self.get(b'V').is_some();
        self.all().filter_map(move |(code, text)| {
            let code = match code {
                b'S' if untranslated => return None,
                b'S' => b'V',
                code => code,
            };
            let (_, name) = NAMES.iter().find(|(known, _)| *known == code)?;
            Some((*name, text))
        })
    }

    /// Whether the server ends the session with this error.
    #[cfg(feature = "replication")]
    pub(crate) fn are_fatal(&self) -> bool {
        let severity = self.get(b'V').or_else(|| self.get(b'S'));
        matches!(severity, Some(b"FATAL" | b"PANIC"))
    }

    /// The text of the field with this code (`b'C'` is SQLSTATE).
    pub fn get(&self, code: u8) -> Option<&'a [u8]> {
        self.all()
            .find(|(known, _)| *known == code)
            .map(|(_, text)| text)
    }

    fn all(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut reader = Reader::new(self.body);
        core::iter::from_fn(move || {
            let code = reader.u8().ok().filter(|code| *code != 0)?;
            Some((code, reader.string().ok()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn fields_are_named_and_unknown_codes_skipped() {
        let fields =
            Fields::parse(b"SFEHLER\0VERROR\0C22012\0?new\0Mdivision by zero\0\0").unwrap();
        assert_eq!(fields.get(b'V').unwrap(), b"ERROR");
        assert_eq!(fields.get(b'C').unwrap(), b"22012");
        let names = fields.iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names, ["severity", "code", "message"]);
    }

    /// The text of each field here is the name that users see.
    #[test]
    fn every_documented_field_has_its_name() {
        let body = b"Vseverity\0Ccode\0Mmessage\0Ddetail\0Hhint\0Pposition\0pinternalPosition\0\
            qinternalQuery\0Wwhere\0sschema\0ttable\0ccolumn\0ddataType\0nconstraint\0Ffile\0Lline\0Rroutine\0\0";
        let fields = Fields::parse(body).unwrap();
        assert_eq!(fields.iter().count(), 17);
        for (name, text) in fields.iter() {
            assert_eq!(name.as_bytes(), text);
        }
    }

    #[test]
    fn the_translated_severity_stands_in_where_it_is_the_only_one() {
        let fields = Fields::parse(b"SFEHLER\0\0").unwrap();
        assert!(fields.iter().eq([("severity", &b"FEHLER"[..])]));
    }

    #[test]
    fn a_missing_terminator_is_malformed() {
        for body in [&b""[..], b"S", b"SERROR", b"SERROR\0", b"SERROR\0\0x"] {
            assert_eq!(Fields::parse(body), Err(Malformed), "{body:?}");
        }
        assert_eq!(Fields::parse(b"\0").unwrap().iter().count(), 0);
    }
}
