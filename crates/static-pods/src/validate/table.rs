//! Reads the table `rules.txt`: the rules for the fields of each kind of object.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

use super::formats::{TextRule, format};
use super::functions::{FieldFunction, function};
use super::validator::ViolationKind;
use crate::{Check, LintFinding, PodField, Severity};

const TABLE: &str = include_str!("rules.txt");

/// Returns the block with this name; an empty block if there is none, which a test excludes.
pub fn block(name: &str) -> &'static Block {
    static BLOCKS: LazyLock<HashMap<&str, Block>> = LazyLock::new(|| read(TABLE));
    static NONE: Block = Block { check: None, is_choice: false, rows: Vec::new() };
    BLOCKS.get(name).unwrap_or(&NONE)
}

/// The rules for a kind of object.
#[derive(Default)]
pub struct Block {
    /// The check that reports the errors, if it is not that of the row that refers to the block.
    pub check: Option<Check>,
    /// Whether the rows are alternatives: exactly one of their fields must be present.
    pub is_choice: bool,
    /// The rules, in the order in which the kubelet applies them.
    pub rows: Vec<Row>,
}

/// A rule for one or more fields.
pub struct Row {
    /// The fields.
    pub fields: Vec<FieldAt>,
    /// The rule.
    pub rule: Rule,
    /// The conditions, all of which must be met.
    pub conditions: Vec<Condition>,
    /// The minor releases with this rule.
    pub minors: Range<u8>,
    /// The kind of error, if it is not the usual one of the rule.
    pub error: Option<ViolationKind>,
    /// The check that reports the error, if it is not that of the block.
    pub check: Option<Check>,
    /// The severity of a mistake, if it is not that of the check.
    severity: Option<Severity>,
    /// The way from the field to the path in the kubelet's message.
    pub log: Option<&'static str>,
    /// What is wrong, if the rule does not say so itself.
    pub why: Option<&'static str>,
    /// How to mend it.
    pub fix: Option<&'static str>,
}

/// A rule for the value of a field.
pub enum Rule {
    /// The field is an error.
    Never,
    /// The rules of this block apply to the field.
    Block(&'static str),
    /// The value must not be empty.
    Required,
    /// The number must be in this range.
    Number(RangeInclusive<i64>),
    /// The text must be one of these.
    OneOf(Vec<&'static str>),
    /// The text must begin with this one.
    StartsWith(&'static str),
    /// The text may have at most so many bytes.
    MaxBytes(usize),
    /// The number of items must be in this range.
    Items(RangeInclusive<usize>),
    /// No earlier item of the list has the same values of these fields.
    Unique(Vec<FieldAt>),
    /// At most one of these fields may be given and, if `.1`, one must be.
    OneField(Vec<FieldAt>, bool),
    /// The text must have this format.
    Format(TextRule),
    /// A function looks at the field.
    Function(FieldFunction),
}

/// A path to fields, and which of them are meant.
pub struct FieldAt {
    /// The path from an object.
    pub path: &'static str,
    /// Which values are meant.
    pub given: Given,
}

/// Which values of a field are meant.
#[derive(Clone, Copy)]
pub enum Given {
    /// Also an absent one.
    Any,
    /// One that is not empty, 0 or false.
    NotEmpty,
    /// Each that is present.
    Present,
}

/// A condition of a row.
pub struct Condition {
    /// The field.
    pub field: FieldAt,
    /// The texts of which the field must have one; `None` if any value will do.
    pub texts: Option<Vec<&'static str>>,
    /// Whether the condition must be met or must not.
    pub expected: bool,
}

fn read(text: &'static str) -> HashMap<&'static str, Block> {
    text.split("\n\n").filter_map(read_block).collect()
}

/// Reads a block. Returns `None` for a comment, or if a row is malformed; a test ensures that no row is.
fn read_block(text: &'static str) -> Option<(&'static str, Block)> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut words = lines.next()?.split(' ');
    let name = words.next()?;
    let mut block = Block::default();
    for word in words {
        match word {
            "one-of-these" => block.is_choice = true,
            id => block.check = Some(Check::named(id)?),
        }
    }
    for line in lines {
        match line.strip_prefix("  ") {
            Some(more) => block.rows.last_mut()?.extend(more)?,
            None => block.rows.push(Row::read(line)?),
        }
    }
    Some((name, block))
}

impl Row {
    /// Reads the first line of a row.
    fn read(line: &'static str) -> Option<Self> {
        let (paths, line) = line.split_once(' ')?;
        let mut row = Self {
            fields: fields(paths, Given::Any),
            rule: Rule::Never,
            conditions: Vec::new(),
            minors: 0..u8::MAX,
            error: None,
            check: None,
            severity: None,
            log: None,
            why: None,
            fix: None,
        };
        row.extend(line)?;
        Some(row)
    }

    /// Adds the rule, the markers and the texts of a line.
    fn extend(&mut self, line: &'static str) -> Option<()> {
        let mut parts = line.split("-- ").map(str::trim);
        for word in parts.next()?.split_whitespace() {
            self.add(word)?;
        }
        for text in parts {
            self.fix = self.why.and(Some(text));
            self.why = self.why.or(Some(text));
        }
        Some(())
    }

    fn add(&mut self, word: &'static str) -> Option<()> {
        match word.split_once('=') {
            Some(("since", minor)) => self.minors.start = minor.parse().ok()?,
            Some(("until", minor)) => self.minors.end = minor.parse().ok()?,
            Some(("if", text)) => self.conditions.push(condition(text, true)),
            Some(("unless", text)) => self.conditions.push(condition(text, false)),
            Some(("error", kind)) => self.error = Some(ViolationKind::named(kind)?),
            Some(("check", id)) => self.check = Some(Check::named(id)?),
            Some(("severity", "info")) => self.severity = Some(Severity::Info),
            Some(("log", path)) => self.log = Some(path),
            _ => self.rule = rule(word)?,
        }
        Some(())
    }
}

impl Row {
    /// Returns the finding about a mistake in the field `at`; `None` if the row is about no mistake.
    pub fn mistake(&self, at: &PodField<'_>) -> Option<LintFinding> {
        let text = |text: &str| text.replace("{}", &at.text()).replace("{path}", at.path());
        let finding = LintFinding::new(self.check?, text(self.why?)).about(at);
        let severity = self.severity.unwrap_or(finding.severity);
        Some(LintFinding { severity, fix: self.fix.map(text), ..finding })
    }
}

fn rule(word: &'static str) -> Option<Rule> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    Some(match name {
        "required" => Rule::Required,
        "one-of" => Rule::OneOf(value.split(',').collect()),
        "starts-with" => Rule::StartsWith(value),
        "max-bytes" => Rule::MaxBytes(value.parse().ok()?),
        "items" => {
            let (low, high) = value.split_once("..")?;
            Rule::Items(low.parse().ok()?..=high.parse().ok()?)
        }
        "unique" => Rule::Unique(fields(value, Given::Any)),
        "exactly-one" => Rule::OneField(fields(value, Given::NotEmpty), true),
        "at-most-one" => Rule::OneField(fields(value, Given::NotEmpty), false),
        _ if name.starts_with(|letter: char| letter.is_ascii_uppercase()) => Rule::Block(name),
        _ => match name.split_once("..") {
            Some((low, "")) => Rule::Number(low.parse().ok()?..=i64::MAX),
            Some((low, high)) => Rule::Number(low.parse().ok()?..=high.parse().ok()?),
            None => format(name).map(Rule::Format).or_else(|| function(name).map(Rule::Function))?,
        },
    })
}

/// Reads paths, separated by commas. `unmarked` is what a path without `?` and `*` means.
fn fields(text: &'static str, unmarked: Given) -> Vec<FieldAt> {
    let paths = text.split(',').filter(|path| !path.is_empty());
    paths.map(|path| field(path, unmarked)).collect()
}

fn field(text: &'static str, unmarked: Given) -> FieldAt {
    let marked = [('?', Given::NotEmpty), ('*', Given::Present)];
    let of_mark = |(mark, given)| text.strip_suffix(mark).map(|path| FieldAt { path, given });
    marked.into_iter().find_map(of_mark).unwrap_or(FieldAt { path: text, given: unmarked })
}

fn condition(text: &'static str, expected: bool) -> Condition {
    let (path, texts) = match text.split_once('=') {
        Some((path, texts)) => (path, Some(texts.split(',').collect())),
        None => (text, None),
    };
    Condition { field: field(path, Given::NotEmpty), texts, expected }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::schema::{self, FieldType, GoStruct};

    #[test]
    fn every_row_is_read_and_says_what_is_wrong() {
        let mut rows = 0;
        for text in TABLE.split("\n\n").filter(|text| text.lines().any(|line| !line.starts_with('#'))) {
            let (name, block) = read_block(text).unwrap_or_else(|| panic!("{text}"));
            rows += block.rows.len();
            for row in block.rows.iter().filter(|row| matches!(row.rule, Rule::Never)) {
                assert!(row.why.is_some(), "{name}: {}", row.fields[0].path);
            }
        }
        assert!(rows > 400, "{rows}");
    }

    #[test]
    fn a_malformed_row_is_not_a_rule() {
        for line in ["a", "a b", "a since=x required", "a error=No", "a 1..x", "a items=3", "a check=SP999"] {
            assert!(Row::read(line).is_none(), "{line}");
        }
    }

    /// Follows the rules through the types of the schema.
    #[derive(Default)]
    struct SchemaWalk {
        seen: HashSet<(&'static str, *const FieldType)>,
        blocks: HashSet<&'static str>,
    }

    /// The type of a field at a path from an object; `None` if the schema has no such field.
    fn type_at<'t>(start: &'t FieldType, path: &str) -> Option<&'t FieldType> {
        path.split('.').filter(|step| !step.is_empty()).try_fold(start, |ty, step| {
            let (name, is_list) = step.split_once('[').map_or((step, false), |(name, _)| (name, true));
            let field = |object: &'t GoStruct| object.field(name, 36).map(|field| &field.ty);
            match (field(ty.inner_struct()?)?, is_list) {
                (FieldType::List(item), true) => Some(&**item),
                (_, true) => None,
                (ty, false) => Some(ty),
            }
        })
    }

    impl SchemaWalk {
        fn block(&mut self, name: &'static str, at: &'static FieldType, outer: &'static FieldType) {
            self.blocks.insert(name);
            if !self.seen.insert((name, std::ptr::from_ref(at))) {
                return;
            }
            assert!(!block(name).rows.is_empty(), "no block {name}");
            for row in &block(name).rows {
                for field in row.conditions.iter().map(|condition| &condition.field).chain(&row.fields) {
                    assert!(Self::ty(field, at, outer).is_some(), "{name}: the schema has no {}", field.path);
                }
                if let Rule::Unique(fields) | Rule::OneField(fields, _) = &row.rule {
                    assert!(fields.iter().all(|field| Self::ty(field, at, outer).is_some()), "{name}");
                }
                let Rule::Block(inner) = row.rule else { continue };
                for field in &row.fields {
                    let ty = Self::ty(field, at, outer).unwrap();
                    self.block(inner, ty, if field.path == "." { outer } else { at });
                }
            }
        }

        fn ty(
            field: &FieldAt,
            at: &'static FieldType,
            outer: &'static FieldType,
        ) -> Option<&'static FieldType> {
            match (field.path.strip_prefix('/'), field.path.strip_prefix("../")) {
                (Some(path), _) => type_at(&schema::pod().field("spec", 36)?.ty, path),
                (None, Some(path)) => type_at(outer, path),
                (None, None) => type_at(at, field.path),
            }
        }
    }

    #[test]
    fn every_path_is_in_the_schema_and_every_block_is_used() {
        let spec = &schema::pod().field("spec", 36).unwrap().ty;
        let metadata = &schema::pod().field("metadata", 36).unwrap().ty;
        let mut walk = SchemaWalk::default();
        walk.block("PodSpec", spec, spec);
        walk.block("References", spec, spec);
        walk.block("ObjectMeta", metadata, metadata);
        walk.block("SpecMistakes", spec, spec);
        walk.block("ObjectMistakes", metadata, metadata);
        walk.blocks.extend(["Pod", "PodMistakes"]);
        let mut unused: Vec<_> = read(TABLE).into_keys().filter(|name| !walk.blocks.contains(name)).collect();
        unused.sort_unstable();
        assert!(unused.is_empty(), "{unused:?}");
    }
}
