//! Collects what the kubelet's validation objects to, in its order and with its kinds of error.

use crate::kubelet::KubeletVersion;
use crate::manifests::Check;
use crate::manifests::finding::Finding;
use crate::manifests::place::Place;

/// The kubelet's kinds of validation error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objection {
    /// Something must be there.
    Required,
    /// A value breaks a rule.
    Invalid,
    /// A value is none of those allowed.
    Unsupported,
    /// A value stands twice.
    Duplicate,
    /// Something must not be there.
    Forbidden,
    /// A value is too long.
    TooLong,
    /// A list is too long.
    TooMany,
    /// A name refers to nothing.
    NotFound,
}

impl Objection {
    const fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::Unsupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
        }
    }

    const fn shows_value(self) -> bool {
        matches!(self, Self::Invalid | Self::Unsupported | Self::Duplicate | Self::NotFound)
    }
}

/// Objections that are kept; what follows says nothing new.
const KEPT: usize = 1_000;

/// The objections so far.
pub struct Judge {
    /// Whose rules.
    pub version: KubeletVersion,
    findings: Vec<Finding>,
    reasons: Vec<String>,
    count: usize,
}

impl Judge {
    /// Nothing objected to yet.
    pub fn new(version: KubeletVersion) -> Self {
        Self { version, findings: Vec::new(), reasons: Vec::new(), count: 0 }
    }

    /// Objects to the value at `at` under `check`. `why` completes "spec.x: ".
    pub fn object(&mut self, check: Check, at: &Place<'_>, objection: Objection, why: &str) -> &mut Self {
        let shown = if objection.shows_value() { at.shown() } else { String::new() };
        self.object_as(check, at, objection, &shown, why)
    }

    /// Objects to a value that the kubelet has changed before it looks: `shown` is what it sees.
    fn object_as(
        &mut self,
        check: Check,
        at: &Place<'_>,
        objection: Objection,
        shown: &str,
        why: &str,
    ) -> &mut Self {
        self.count += 1;
        if self.count > KEPT {
            return self;
        }
        let path = at.path();
        let shown = if objection.shows_value() { format!(": {shown}") } else { String::new() };
        self.reasons.push(format!("{}: {}{shown}: {why}", at.kubelet_path(), objection.words()));
        self.findings.push(Finding::error(check, format!("{path}: {why}")).on_field(path).at(at.position()));
        self
    }

    /// What to do about the last objection.
    pub fn fix(&mut self, fix: impl Into<String>) {
        if let Some(last) = self.findings.last_mut() {
            last.fix = Some(fix.into());
        }
    }

    /// Something must be there.
    pub fn required(&mut self, check: Check, at: &Place<'_>, why: &str) -> &mut Self {
        self.object(check, at, Objection::Required, why)
    }

    /// A value breaks a rule.
    pub fn invalid(&mut self, check: Check, at: &Place<'_>, why: &str) -> &mut Self {
        self.object(check, at, Objection::Invalid, why)
    }

    /// A value breaks a rule in the form that the kubelet has given it.
    pub fn invalid_as(&mut self, check: Check, at: &Place<'_>, value: &str, why: &str) -> &mut Self {
        self.object_as(check, at, Objection::Invalid, &format!("\"{value}\""), why)
    }

    /// Something must not be there.
    pub fn forbidden(&mut self, check: Check, at: &Place<'_>, why: &str) -> &mut Self {
        self.object(check, at, Objection::Forbidden, why)
    }

    /// A value stands twice.
    pub fn duplicate(&mut self, check: Check, at: &Place<'_>) -> &mut Self {
        let why = format!("{} is given more than once", at.shown());
        self.object(check, at, Objection::Duplicate, &why)
    }

    /// The value must be one of `allowed`; says so and gives false if it is not.
    pub fn one_of(&mut self, check: Check, at: &Place<'_>, allowed: &[&str]) -> bool {
        let value = at.str();
        if allowed.contains(&value) {
            return true;
        }
        let shown: Vec<String> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
        let why = format!("must be one of {}, found \"{value}\"", shown.join(", "));
        let meant = allowed.iter().find(|word| word.eq_ignore_ascii_case(value));
        self.object(check, at, Objection::Unsupported, &why);
        if let Some(meant) = meant {
            self.fix(format!("write `{meant}`"));
        }
        false
    }

    /// Whether pods are validated with the options of a create, which the open gates relax. Up to 1.34 the file source
    /// validated with all options off, whatever the gates said.
    pub const fn relaxed(&self) -> bool {
        self.version.at_least(35)
    }

    /// How many objections there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What the kubelet logs, and the findings; nothing if there is no objection.
    pub fn objections(self) -> Option<(String, Vec<Finding>)> {
        if self.findings.is_empty() {
            return None;
        }
        Some((format!("invalid pod: [{}]", self.reasons.join(" ")), self.findings))
    }
}
