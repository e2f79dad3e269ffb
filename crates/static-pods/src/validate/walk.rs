//! Applies the rules of the table to the fields of a Pod.

use super::table::{Block, Condition, FieldAt, Given, Row, Rule, block};
use super::validator::{Validator, ViolationKind};
use crate::pod_field::PodField;

/// What is wrong with a value.
type Problem = Option<(ViolationKind, String)>;

impl<'a> Validator<'a> {
    /// Applies the rules of a block to an object.
    pub fn object(&mut self, name: &str, object: &PodField<'a>) {
        self.rows(block(name), object, |validator, row| validator.row(row, object));
    }

    /// Returns the fields that are an error by the rows of a block, whatever the release, each with its row.
    pub fn errors(&self, name: &str, object: &PodField<'a>) -> Vec<(&'static Row, PodField<'a>)> {
        let mut found = Vec::new();
        for row in block(name).rows.iter().filter(|row| self.meets(row, object)) {
            for at in row.fields.iter().flat_map(|field| self.fields(field, object)) {
                match row.rule {
                    Rule::Block(inner) => found.extend(self.errors(inner, &at)),
                    _ => found.push((row, at)),
                }
            }
        }
        found
    }

    /// Calls a function with each row of a block that applies to an object.
    fn rows(
        &mut self,
        block: &'static Block,
        object: &PodField<'a>,
        mut call: impl FnMut(&mut Self, &'static Row),
    ) {
        let check = self.check;
        for row in &block.rows {
            self.check = row.check.or(block.check).unwrap_or(check);
            if self.applies(row, object) {
                call(self, row);
            }
        }
        self.check = check;
    }

    fn applies(&self, row: &Row, object: &PodField<'a>) -> bool {
        row.minors.contains(&self.version.minor()) && self.meets(row, object)
    }

    fn meets(&self, row: &Row, object: &PodField<'a>) -> bool {
        row.conditions.iter().all(|condition| self.holds(condition, object) == condition.expected)
    }

    fn holds(&self, condition: &Condition, object: &PodField<'a>) -> bool {
        match &condition.texts {
            Some(texts) => {
                let any = FieldAt { given: Given::Any, ..condition.field };
                self.fields(&any, object).iter().any(|field| is_one_of(texts, &field.text()))
            }
            None => !self.fields(&condition.field, object).is_empty(),
        }
    }

    /// Returns the fields at a path from an object, as far as they are meant.
    fn fields(&self, at: &FieldAt, object: &PodField<'a>) -> Vec<PodField<'a>> {
        let (start, path) = match (at.path.strip_prefix('/'), at.path.strip_prefix("../")) {
            (Some(path), _) => (&self.spec, path),
            (None, Some(path)) => (self.owner(), path),
            (None, None) => (object, at.path),
        };
        let mut found = start.at_path(path, object);
        found.retain(|field| match at.given {
            Given::Any => true,
            Given::NotEmpty => !field.is_zero(),
            Given::Present => field.is_set(),
        });
        found
    }

    fn row(&mut self, row: &'static Row, object: &PodField<'a>) {
        for field in &row.fields {
            for at in self.fields(field, object) {
                let at = match row.log {
                    Some(way) => at.clone().called(path_along(at.kubelet_path(), way)),
                    None => at,
                };
                if field.path == "." {
                    self.value(row, &at, object);
                } else {
                    self.owners.push(object.clone());
                    self.value(row, &at, object);
                    self.owners.pop();
                }
            }
        }
    }

    /// Applies a rule to a field of an object.
    fn value(&mut self, row: &'static Row, at: &PodField<'a>, object: &PodField<'a>) {
        self.fix = row.fix.map(str::to_owned);
        match &row.rule {
            Rule::Block(name) if block(name).is_choice => self.choice(block(name), row, at),
            Rule::Block(name) => self.object(name, at),
            Rule::Function(function) => function(self, at),
            rule => {
                if let Some((kind, why)) = self.problem(rule, at, object) {
                    self.error(row.error.unwrap_or(kind), at, row.why.unwrap_or(&why));
                }
            }
        }
    }

    /// Applies the first row whose field is present. The fields of the other rows must be absent.
    fn choice(&mut self, block: &'static Block, choice: &Row, object: &PodField<'a>) {
        let mut is_chosen = false;
        self.rows(block, object, |validator, row| {
            let others = row.fields.iter().flat_map(|field| validator.fields(field, object));
            let given: Vec<_> = others.filter(PodField::is_set).collect();
            if !is_chosen && !given.is_empty() {
                is_chosen = true;
                validator.row(row, object);
                return;
            }
            validator.fix = None;
            for other in given {
                validator.error(ViolationKind::Forbidden, &other, "only one of these fields may be given");
            }
        });
        if !is_chosen {
            self.error(ViolationKind::Required, object, choice.why.unwrap_or_default());
        }
    }

    /// Returns what is wrong with a field of an object. Blocks and functions report their errors themselves.
    fn problem(&mut self, rule: &Rule, at: &PodField<'a>, object: &PodField<'a>) -> Problem {
        let text = at.text();
        match rule {
            Rule::Block(_) | Rule::Function(_) => None,
            Rule::Never => Some((ViolationKind::Invalid, String::new())),
            Rule::Required => at.is_zero().then(|| (ViolationKind::Required, "is required".to_owned())),
            Rule::Number(range) => {
                (!range.contains(&at.int())).then(|| (ViolationKind::Invalid, range_words(range)))
            }
            Rule::OneOf(texts) => (!is_one_of(texts, &text)).then(|| {
                self.fix = case_fix(texts, &text);
                (ViolationKind::Unsupported, one_of_words(texts, &text))
            }),
            Rule::StartsWith(start) => (!text.starts_with(start))
                .then(|| (ViolationKind::Invalid, format!("must start with `{start}`"))),
            Rule::MaxBytes(most) => (text.len() > *most)
                .then(|| (ViolationKind::TooLong, format!("may have at most {most} bytes"))),
            Rule::Items(range) => (!range.contains(&at.len())).then(|| {
                let (low, high) = (range.start(), range.end());
                (ViolationKind::Invalid, format!("must have {low} to {high} items"))
            }),
            Rule::Unique(fields) => (!self.is_first(fields, at, object))
                .then(|| (ViolationKind::Duplicate, "is given more than once".to_owned())),
            Rule::OneField(fields, is_required) => {
                let given = fields.iter().filter(|field| !self.fields(field, object).is_empty()).count();
                let is_wrong = given > 1 || given == 0 && *is_required;
                is_wrong.then(|| (ViolationKind::Invalid, field_words(fields)))
            }
            Rule::Format(format) => Some((ViolationKind::Invalid, format(&text)?.to_owned())),
        }
    }

    /// Whether no earlier item of the list has the same values of these fields, or of `at` if there are none.
    fn is_first(&mut self, fields: &[FieldAt], at: &PodField<'a>, object: &PodField<'a>) -> bool {
        let list = path_along(object.path(), "^");
        let field = at.path().strip_prefix(object.path()).unwrap_or_default();
        let mut key = vec![list, field.to_owned(), at.text()];
        key.extend(fields.iter().flat_map(|field| self.fields(field, object)).map(|field| field.text()));
        self.seen.insert(key)
    }
}

/// Follows a way such as `^^.name` from a path: each `^` leads to what contains the field.
pub fn path_along(path: &str, way: &str) -> String {
    let name = way.trim_start_matches('^');
    let mut path = path;
    for _ in 0..way.len() - name.len() {
        let last = if path.ends_with(']') { path.rfind('[') } else { path.rfind('.') };
        path = last.and_then(|last| path.get(..last)).unwrap_or_default();
    }
    format!("{path}{name}")
}

/// Whether a text is one of these, of which `A*` is any text that begins with A.
fn is_one_of(texts: &[&str], text: &str) -> bool {
    texts.iter().any(|one| one.strip_suffix('*').map_or(*one == text, |start| text.starts_with(start)))
}

fn range_words(range: &std::ops::RangeInclusive<i64>) -> String {
    match (range.start(), range.end()) {
        (low, &i64::MAX) => format!("must be at least {low}"),
        (low, high) => format!("must be between {low} and {high}"),
    }
}

fn one_of_words(texts: &[&str], text: &str) -> String {
    let shown: Vec<String> = texts.iter().map(|one| format!("\"{one}\"")).collect();
    format!("must be one of {}, found \"{text}\"", shown.join(", "))
}

/// Returns the fix for a text in the wrong case.
fn case_fix(texts: &[&str], text: &str) -> Option<String> {
    let right = texts.iter().find(|one| one.eq_ignore_ascii_case(text))?;
    Some(format!("write `{right}`"))
}

fn field_words(fields: &[FieldAt]) -> String {
    let names: Vec<&str> = fields.iter().map(|field| field.path).collect();
    format!("must have exactly one of {}", names.join(", "))
}
