//! Collects validation errors in the order and with the kinds of error of the kubelet.

use crate::kubelet::KubeletVersion;
use crate::manifests::Check;
use crate::manifests::finding::LintFinding;
use crate::manifests::pod_field::PodField;

/// The kubelet's kinds of validation error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// A required value is missing.
    Required,
    /// A value breaks a rule.
    Invalid,
    /// A value is not one of those allowed.
    Unsupported,
    /// A value occurs twice.
    Duplicate,
    /// A forbidden value is set.
    Forbidden,
    /// A value is too long.
    TooLong,
    /// A list is too long.
    TooMany,
    /// A name refers to something that does not exist.
    NotFound,
}

impl ViolationKind {
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

/// The maximum number of errors that are kept.
const KEPT: usize = 1_000;

/// The validation errors found so far.
pub struct Validator {
    /// The kubelet release whose rules are applied.
    pub version: KubeletVersion,
    findings: Vec<LintFinding>,
    reasons: Vec<String>,
    count: usize,
}

impl Validator {
    /// Creates a validator without errors.
    pub fn new(version: KubeletVersion) -> Self {
        Self { version, findings: Vec::new(), reasons: Vec::new(), count: 0 }
    }

    /// Records an error of the value at `at` under `check`. `why` completes "spec.x: ".
    pub fn violation(
        &mut self,
        check: Check,
        at: &PodField<'_>,
        kind: ViolationKind,
        why: &str,
    ) -> &mut Self {
        let shown = if kind.shows_value() { at.shown() } else { String::new() };
        self.violation_as(check, at, kind, &shown, why)
    }

    /// Records an error of a value that the kubelet has changed before validation: `shown` is the changed value.
    fn violation_as(
        &mut self,
        check: Check,
        at: &PodField<'_>,
        kind: ViolationKind,
        shown: &str,
        why: &str,
    ) -> &mut Self {
        self.count += 1;
        if self.count > KEPT {
            return self;
        }
        let path = at.path();
        let shown = if kind.shows_value() { format!(": {shown}") } else { String::new() };
        self.reasons.push(format!("{}: {}{shown}: {why}", at.kubelet_path(), kind.words()));
        self.findings
            .push(LintFinding::error(check, format!("{path}: {why}")).on_field(path).at(at.position()));
        self
    }

    /// Sets the fix of the last error that was kept.
    pub fn fix(&mut self, fix: impl Into<String>) {
        if let Some(last) = self.findings.last_mut() {
            last.fix = Some(fix.into());
        }
    }

    /// Records that a required value is missing.
    pub fn required(&mut self, check: Check, at: &PodField<'_>, why: &str) -> &mut Self {
        self.violation(check, at, ViolationKind::Required, why)
    }

    /// Records that a value breaks a rule.
    pub fn invalid(&mut self, check: Check, at: &PodField<'_>, why: &str) -> &mut Self {
        self.violation(check, at, ViolationKind::Invalid, why)
    }

    /// Records that a value breaks a rule. The message shows `value`, into which the kubelet has converted the field.
    pub fn invalid_as(&mut self, check: Check, at: &PodField<'_>, value: &str, why: &str) -> &mut Self {
        self.violation_as(check, at, ViolationKind::Invalid, &format!("\"{value}\""), why)
    }

    /// Records that a forbidden value is set.
    pub fn forbidden(&mut self, check: Check, at: &PodField<'_>, why: &str) -> &mut Self {
        self.violation(check, at, ViolationKind::Forbidden, why)
    }

    /// Records that a value occurs twice.
    pub fn duplicate(&mut self, check: Check, at: &PodField<'_>) -> &mut Self {
        let why = format!("{} is given more than once", at.shown());
        self.violation(check, at, ViolationKind::Duplicate, &why)
    }

    /// Records an error if the value is not one of `allowed`. Returns whether it is.
    pub fn one_of(&mut self, check: Check, at: &PodField<'_>, allowed: &[&str]) -> bool {
        let value = at.str();
        if allowed.contains(&value) {
            return true;
        }
        let shown: Vec<String> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
        let why = format!("must be one of {}, found \"{value}\"", shown.join(", "));
        let meant = allowed.iter().find(|word| word.eq_ignore_ascii_case(value));
        self.violation(check, at, ViolationKind::Unsupported, &why);
        if let Some(meant) = meant {
            self.fix(format!("write `{meant}`"));
        }
        false
    }

    /// Whether pods are validated with the options of a create request, which feature gates relax. Up to 1.34 the file
    /// source validated with all options off, whatever the gates.
    pub const fn relaxed(&self) -> bool {
        self.version.at_least(35)
    }

    /// The number of errors.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the kubelet's log message and the findings; `None` without errors.
    pub fn finish(self) -> Option<(String, Vec<LintFinding>)> {
        if self.findings.is_empty() {
            return None;
        }
        Some((format!("invalid pod: [{}]", self.reasons.join(" ")), self.findings))
    }
}
