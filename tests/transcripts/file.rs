//! A transcript: a Markdown file with a conversation in it.
//!
//! Reads the file into steps, cuts the server's bytes into pieces of any size, and rewrites the file from what a replay
//! has given. Must not know which core is called: `Call` says what a line after `> ` means. Judges nothing: the runners
//! do.

#![allow(
    dead_code,
    reason = "the tests transcripts, replication and properties each use a part"
)]

use crate::trace::{self, Printer, Tokens};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// One call of a core.
pub trait Call: Sized {
    /// Parses the text after `> `.
    fn parse(line: &str) -> Result<Self, String>;

    /// The printer of its output, if that is not for the conversation's own connection.
    fn printer(&self) -> Option<Printer> {
        None
    }
}

/// One file, parsed.
#[derive(Clone)]
pub struct File<C> {
    pub path: PathBuf,
    pub steps: Vec<Step<C>>,
    /// The names of the server's messages in the file.
    pub backend_messages: Vec<String>,
    /// The expected rows.
    pub rows: String,
    pub events: Vec<String>,
    /// The fence says `trace whole`: the outcome depends on the split, so the bytes come in one piece.
    pub whole: bool,
}

/// An action on the core, and the bytes that the core must then write.
#[derive(Clone)]
pub struct Step<C> {
    pub action: Action<C>,
    pub output: Vec<u8>,
}

#[derive(Clone)]
pub enum Action<C> {
    /// The text after `> `, and its parsed form.
    Call(String, C),
    /// The server's bytes up to the point where the client must act.
    Feed(Vec<u8>),
}

impl<C> Step<C> {
    pub fn new(action: Action<C>) -> Self {
        Step {
            action,
            output: vec![],
        }
    }

    /// Returns the server's bytes of a step.
    pub fn fed(&self) -> Option<&[u8]> {
        if let Action::Feed(bytes) = &self.action {
            Some(bytes)
        } else {
            None
        }
    }
}

impl<C: Call> File<C> {
    /// Returns the files of a folder below tests/, in order of their names.
    pub fn all(folder: &str) -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(folder);
        let entries = fs::read_dir(folder).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| {
            path.extension().is_some_and(|extension| extension == "md")
                && path.file_stem().unwrap() != "README"
        });
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// Reads a file. Panics with file and line if it is not a transcript.
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut file = File {
            path: path.to_path_buf(),
            steps: vec![],
            backend_messages: vec![],
            rows: String::new(),
            events: vec![],
            whole: false,
        };
        let mut fence = None;
        for (index, line) in text.lines().enumerate() {
            match (fence, line.strip_prefix("```")) {
                (None, Some(info)) => {
                    fence = Some(info);
                    file.whole |= info == "trace whole";
                }
                (Some(_), Some(_)) => fence = None,
                (Some("rows"), None) => {
                    file.rows += &(line.to_owned() + "\n")
                        .replace("␃\n", "")
                        .replace('␍', "\r");
                }
                (Some("events"), None) => file.events.push(line.to_owned()),
                (Some("trace" | "trace whole"), None) => {
                    file.line(line).unwrap_or_else(|error| {
                        panic!("{}:{}: {error}", path.display(), index + 1)
                    });
                }
                _ => {}
            }
        }
        assert!(!file.steps.is_empty(), "{} has no trace", path.display());
        file
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some(call) = line.strip_prefix("> ") {
            let action = Action::Call(call.to_owned(), C::parse(call)?);
            self.steps.push(Step::new(action));
            return Ok(());
        }
        let line = trace::parse(line)?;
        if line.side == 'F' {
            let step = self.steps.last_mut();
            let step = step.ok_or("the client says nothing by itself")?;
            step.output.extend(line.bytes);
            return Ok(());
        }
        self.backend_messages.push(line.name);
        match self.steps.last_mut() {
            Some(Step {
                action: Action::Feed(bytes),
                output,
            }) if output.is_empty() => bytes.extend(line.bytes),
            _ => self.steps.push(Step::new(Action::Feed(line.bytes))),
        }
        Ok(())
    }

    /// Returns the number of bytes that the server sends.
    pub fn fed(&self) -> usize {
        self.steps.iter().flat_map(Step::fed).map(<[u8]>::len).sum()
    }

    /// Returns the file's text with trace, rows and events replaced by those of a replay; prose stays. `printer` is
    /// that of the conversation.
    pub fn rewritten(
        &self,
        mut printer: Printer,
        outputs: &[Vec<u8>],
        rows: &[u8],
        events: &[String],
    ) -> String {
        let text = fs::read_to_string(&self.path).unwrap();
        let prose = text.split("```trace").next().unwrap();
        let mut lines = vec![format!(
            "{prose}```trace{}",
            if self.whole { " whole" } else { "" }
        )];
        for (step, output) in self.steps.iter().zip(outputs) {
            let mut own = None;
            match &step.action {
                Action::Call(line, call) => {
                    lines.push(format!("> {line}"));
                    own = call.printer();
                }
                Action::Feed(bytes) => lines.extend(printer.lines('B', bytes)),
            }
            lines.extend(own.as_mut().unwrap_or(&mut printer).lines('F', output));
        }
        let mut rows = str::from_utf8(rows).unwrap().replace('\r', "␍");
        if !rows.is_empty() && !rows.ends_with('\n') {
            rows += "␃\n";
        }
        lines.push(format!("```\n\n```rows\n{rows}```\n\n```events"));
        lines.extend(events.iter().cloned());
        lines.push("```\n".to_owned());
        lines.join("\n")
    }
}

/// Returns the pieces into which bytes are cut. They begin with the server's byte of number `from`; `cut` says whether
/// a piece ends before the server's byte of this number.
pub fn pieces(bytes: &[u8], from: usize, cut: impl Fn(usize) -> bool) -> Vec<&[u8]> {
    let mut start = 0;
    (1..=bytes.len())
        .filter(|end| *end == bytes.len() || cut(from + end))
        .map(|end| &bytes[std::mem::replace(&mut start, end)..end])
        .collect()
}

/// Returns the text between the quotes.
pub fn text(tokens: &mut Tokens<'_>) -> Result<String, String> {
    String::from_utf8(tokens.quoted('"')?).map_err(|_| "text is no UTF-8".into())
}
