//! What is written from the Rust side for others to read: js/wasm/numbers.ts, js/wasm/messages.ts, docs/boundary.md.
//!
//! All are committed. A test fails when one differs from what Rust says now; `BOUNDARY=write cargo test --test
//! boundary` writes them anew.

#![allow(clippy::unwrap_used, clippy::panic)]

use pgz_edge::boundary::{GROUPS, Group, Number, rows};
use pgz_edge::encode::{RowForm, RowFormat};
use pgz_edge::protocol::messages::{BACKEND, FRONTEND, HEADER, Named};
use std::{env, fs, path::Path};

const WRITE: &str = "BOUNDARY=write cargo test --test boundary";

/// The widest line of Markdown and of TypeScript.
const WIDTH: usize = 120;

#[test]
fn names_of_numbers_in_typescript() {
    let head = format!(
        "The numbers that cross the boundary. tests/boundary.rs writes this file from src/boundary.rs: \
            change that one, then run `{WRITE}`."
    );
    let mut text = wrap(&head, "// ", "// ");
    for group in GROUPS {
        text += &wrap(&sentence(group.doc), "\n// ", "// ");
        for number in group.numbers {
            text += &comment(number.doc);
            let value = digits(group, number.value);
            text += &format!("export const {} = {value};\n", number.name);
        }
    }
    text += "\n// Formats of encoded output by their names: how the core calls them, what HTTP calls them, \
             and whether a result that\n\
             // a cap has cut can say so.\nexport const FORMATS = {\n";
    for format in RowFormat::ALL {
        let facts = format.facts();
        let Some(public) = facts.public else { continue };
        let mut numbers = row_formats().iter();
        let number = numbers.find(|number| number.value == facts.code).unwrap();
        text += &format!("  /** {} */\n", sentence(number.doc));
        text += &format!(
            "  {}: {{ code: {}, contentType: \"{}\", truncates: {} }},\n",
            public.name,
            number.name,
            public.content_type,
            facts.can_truncate()
        );
    }
    text += "} as const;\n";
    committed("js/wasm/numbers.ts", &text);
}

#[test]
fn types_of_messages_in_typescript() {
    let head = format!(
        "The messages of the protocol by their type bytes. tests/boundary.rs writes this file from \
         src/protocol/messages.rs: change that one, then run `{WRITE}`."
    );
    let mut text = wrap(&head, "// ", "// ");
    text += "\n/** Bytes in front of a message's body: its type, and int32 length. */\n";
    text += &format!("export const HEADER = {HEADER};\n\n// Type bytes.\n");
    let mut types: Vec<_> = [BACKEND, FRONTEND].concat();
    types.sort_unstable_by_key(|(_, name)| *name);
    types.dedup();
    for (letter, name) in types {
        text += &format!("export const {} = {letter};\n", constant(name));
    }
    text += &names_of(
        "Names of the backend's messages by their letters.",
        "BACKEND",
        BACKEND,
    );
    text += &names_of("Names of the frontend's.", "FRONTEND", FRONTEND);
    committed("js/wasm/messages.ts", &text);
}

/// `ReadyForQuery` as `READY_FOR_QUERY`.
fn constant(name: &str) -> String {
    let mut constant = String::new();
    for (index, letter) in name.char_indices() {
        if index > 0 && letter.is_uppercase() {
            constant.push('_');
        }
        constant.push(letter.to_ascii_uppercase());
    }
    constant
}

fn names_of(doc: &str, name: &str, messages: &[Named]) -> String {
    let mut text =
        format!("\n/** {doc} */\nexport const {name}: Readonly<Record<string, string>> = {{\n");
    for (letter, name) in messages {
        text += &format!("  {}: \"{name}\",\n", char::from(*letter));
    }
    text + "};\n"
}

/// The numbers of the row formats, the one for no rows included.
fn row_formats() -> &'static [Number] {
    let is_of_formats = |group: &&Group| group.numbers.iter().any(|it| it.name == "ROWS_NONE");
    GROUPS.iter().find(is_of_formats).unwrap().numbers
}

/// A format that one of the two tables lacks could not be asked for, or would have no number.
#[test]
fn every_number_of_a_format_has_its_row_in_the_table_of_formats() {
    for number in row_formats() {
        let Some(form) = RowForm::from_code(number.value) else {
            assert_eq!(number.value, rows::NONE, "{}", number.name);
            continue;
        };
        let facts = form.format.facts();
        assert_eq!(facts.code, number.value);
        if let Some(public) = facts.public {
            assert_eq!(number.name, format!("ROWS_{}", public.name.to_uppercase()));
        }
    }
    assert_eq!(row_formats().len(), 1 + RowFormat::ALL.len());
}

#[test]
fn no_two_numbers_share_a_name_and_no_two_bits_overlap() {
    let mut names: Vec<_> = GROUPS
        .iter()
        .flat_map(|group| group.numbers)
        .map(|number| number.name)
        .collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for group in GROUPS {
        let values = group.numbers.iter().map(|number| number.value);
        if group.bits {
            let all = values.clone().fold(0, |bits, value| bits | value);
            let sum: u64 = values.map(u64::from).sum();
            assert_eq!(sum, u64::from(all), "{}", sentence(group.doc));
        } else {
            let mut values: Vec<_> = values.collect();
            values.dedup();
            assert_eq!(values.len(), group.numbers.len(), "{}", sentence(group.doc));
        }
    }
}

#[test]
fn the_page_of_the_boundary() {
    let mut page = "# The boundary\n\n".to_owned();
    let introduction = format!(
        "Every call and every number that crosses between JavaScript and the wasm. tests/boundary.rs writes this \
         page from the comments in `src/wasm/lib.rs`, `src/wasm-changes/lib.rs` and `src/boundary.rs`; after a \
         change of those run `{WRITE}`. \
         How the calls play together is in [architecture.md](architecture.md)."
    );
    page += &wrap(&introduction, "", "");
    page += "\n## Calls\n\nOne `CoreConnection` is one connection.\n\n";
    page += &calls_of("src/wasm/lib.rs", "CoreConnection");
    page += "\n## Calls of the second wasm\n\nOne `ChangesCore` is one stream of changes, over all its \
             connections ([changes.md](changes.md)).\n\n";
    page += &calls_of("src/wasm-changes/lib.rs", "ChangesCore");
    page += "\n## Numbers\n";
    for group in GROUPS {
        page += &format!("\n{}\n", wrap(&sentence(group.doc), "", ""));
        page += "| name | number | meaning |\n|---|---|---|\n";
        for number in group.numbers {
            page += &format!(
                "| `{}` | {} | {} |\n",
                number.name,
                digits(group, number.value),
                sentence(number.doc)
            );
        }
    }
    committed("docs/boundary.md", &page);
}

/// The methods of this class, one after the other.
fn calls_of(file: &str, class: &str) -> String {
    let source = read(file);
    let (_, source) = source.split_once(&format!("\nimpl {class} {{")).unwrap();
    calls(source, class).iter().map(Call::markdown).collect()
}

/// A method of a class.
struct Call {
    /// As JavaScript sees it: `receive(count) -> number`.
    signature: String,
    /// Paragraphs of its comment; those of a list begin with `- `.
    doc: Vec<String>,
}

impl Call {
    fn markdown(&self) -> String {
        let (first, rest) = self.doc.split_first().unwrap();
        let head = wrap(&format!("`{}`: {first}", self.signature), "- ", "  ");
        rest.iter()
            .fold(head, |text, line| text + &wrap(line, "  ", "    "))
    }
}

/// The public methods of a class, in their order there. Each must have a comment.
fn calls(source: &str, class: &str) -> Vec<Call> {
    let mut calls = vec![];
    let mut doc: Vec<String> = vec![];
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("/// ") {
            match doc.last_mut() {
                Some(last) if !text.starts_with("- ") => *last += &format!(" {}", text.trim()),
                _ => doc.push(text.to_owned()),
            }
        } else if let Some(rest) = line.strip_prefix("pub fn ") {
            let mut signature = rest.to_owned();
            while !signature.ends_with('{') {
                signature += lines.next().unwrap();
            }
            assert!(!doc.is_empty(), "no comment: {signature}");
            calls.push(Call {
                signature: javascript(class, &signature, returns_status(source, rest)),
                doc: std::mem::take(&mut doc),
            });
        } else if !line.starts_with("#[") {
            doc.clear();
        }
    }
    calls
}

/// Whether the body behind this head ends with the status.
fn returns_status(source: &str, head: &str) -> bool {
    let body = source.split_once(head).unwrap().1;
    let (body, _) = body.split_once("\n    }").unwrap();
    body.ends_with("self.inner.status()")
}

/// `receive(&mut self, count: usize) -> u32 {` as JavaScript sees it.
fn javascript(class: &str, signature: &str, returns_status: bool) -> String {
    let (name, rest) = signature.split_once('(').unwrap();
    let (parameters, result) = rest.split_once(')').unwrap();
    let names: Vec<_> = parameters
        .split(',')
        .filter_map(|parameter| parameter.split_once(':'))
        .map(|(name, kind)| match kind.contains("Option<") {
            true => format!("{}?", name.trim()),
            false => name.trim().to_owned(),
        })
        .collect();
    let names = names.join(", ");
    let result = result
        .trim_start_matches([' ', '-', '>'])
        .trim_end_matches([' ', '{']);
    if name == "new" {
        return format!("new {class}({names})");
    }
    match result {
        "" => format!("{name}({names})"),
        "Vec<u8>" => format!("{name}({names}) -> Uint8Array"),
        "String" => format!("{name}({names}) -> string"),
        "Vec<u32>" => format!("{name}({names}) -> Uint32Array"),
        "u64" => format!("{name}({names}) -> bigint"),
        "bool" => format!("{name}({names}) -> boolean"),
        _ if returns_status => format!("{name}({names}) -> status"),
        "*const u8" => format!("{name}({names}) -> address"),
        _ => format!("{name}({names}) -> number"),
    }
}

fn digits(group: &Group, value: u32) -> String {
    match group.bits {
        true => format!("{value:#x}"),
        false => value.to_string(),
    }
}

fn sentence(lines: &[&str]) -> String {
    let words: Vec<_> = lines.iter().map(|line| line.trim()).collect();
    words.join(" ")
}

/// Lines of at most `WIDTH`. `first` stands in front of the first, `rest` in front of the others.
fn wrap(text: &str, first: &str, rest: &str) -> String {
    let mut wrapped = first.to_owned();
    let mut width = first.len();
    for (index, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && width + 1 + length > WIDTH {
            wrapped += &format!("\n{rest}");
            width = rest.len();
        } else if index > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped += word;
        width += length;
    }
    wrapped + "\n"
}

/// A comment on what follows it in TypeScript.
fn comment(lines: &[&str]) -> String {
    let text = sentence(lines);
    if text.len() + "/**  */".len() <= WIDTH {
        return format!("/** {text} */\n");
    }
    format!("/**\n{} */\n", wrap(&text, " * ", " * "))
}

fn committed(file: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if env::var("BOUNDARY").is_ok_and(|mode| mode == "write") {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (found, expected))) = (1..)
        .zip(found.lines().chain([""]).zip(expected.lines().chain([""])))
        .find(|(_, (found, expected))| found != expected)
    {
        panic!("{file}:{line} is\n{found}\nwhere Rust says\n{expected}\nWrite it anew: {WRITE}");
    }
    assert_eq!(found.len(), expected.len(), "{file}: {WRITE}");
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}
