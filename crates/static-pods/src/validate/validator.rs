//! Collects validation errors: as findings, and as the kubelet's log message with its order and its kinds of error.

use crate::Check;
use crate::finding::LintFinding;
use crate::pod_field::PodField;
use plegctl_base::report::word_enum;
use plegctl_node::kubelet::KubeletVersion;

use super::names::{FormatProblem, TextRule, kubelet_words};

word_enum! {
    /// The kubelet's kinds of validation error.
    pub enum ViolationKind: words {
        /// A required value is missing.
        Required = "Required value",
        /// A value breaks a rule.
        Invalid = "Invalid value",
        /// A value is not one of those allowed.
        Unsupported = "Unsupported value",
        /// A value occurs twice.
        Duplicate = "Duplicate value",
        /// A forbidden value is set.
        Forbidden = "Forbidden",
        /// A value is too long.
        TooLong = "Too long",
        /// A list is too long.
        TooMany = "Too many",
        /// A name refers to something that does not exist.
        NotFound = "Not found",
    }
}

impl ViolationKind {
    const fn shows_value(self) -> bool {
        matches!(self, Self::Invalid | Self::Unsupported | Self::Duplicate | Self::NotFound)
    }
}

/// The maximum number of errors in the result. Further errors are only counted.
const MAX_REPORTED: usize = 1_000;

/// The validation errors found so far.
pub struct Validator {
    /// The kubelet release whose rules are applied.
    pub version: KubeletVersion,
    findings: Vec<LintFinding>,
    /// The parts of the kubelet's log message.
    reasons: Vec<String>,
    /// The number of errors, including those that are not reported.
    count: usize,
}

impl Validator {
    /// Creates a validator without errors.
    pub fn new(version: KubeletVersion) -> Self {
        Self { version, findings: Vec::new(), reasons: Vec::new(), count: 0 }
    }

    /// Records an error of the field `at` as a finding of `check`. The message is the field's path, `: ` and `why`. The
    /// kubelet's message is quoted up to the value.
    pub fn violation(
        &mut self,
        check: Check,
        at: &PodField<'_>,
        kind: ViolationKind,
        why: &str,
    ) -> &mut Self {
        // The kubelet shows a collection, and a number that occurs twice, in a form of its own.
        let is_shown =
            kind.shows_value() && !at.is_collection() && (kind != ViolationKind::Duplicate || at.is_text());
        let shown = is_shown.then(|| at.shown());
        self.violation_as(check, at, kind, shown, why, None)
    }

    /// Records an error. `shown` is the value in the kubelet's message, if it has one. It differs from the field's value if
    /// the kubelet has changed the value before validation. `rule` is the kubelet's own text for `why`, if it is known.
    fn violation_as(
        &mut self,
        check: Check,
        at: &PodField<'_>,
        kind: ViolationKind,
        shown: Option<String>,
        why: &str,
        rule: Option<String>,
    ) -> &mut Self {
        self.count += 1;
        if self.count > MAX_REPORTED {
            return self;
        }
        let path = at.path();
        let parts = [Some(at.kubelet_path().to_owned()), Some(kind.words().to_owned()), shown, rule];
        self.reasons.push(parts.into_iter().flatten().collect::<Vec<_>>().join(": "));
        self.findings
            .push(LintFinding::error(check, format!("{path}: {why}")).on_field(path).at(at.position()));
        self
    }

    /// Sets the fix of the last reported error.
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

    /// Records the problem `wrong` of the text `value`, which is a key, or the field's value after the kubelet has changed
    /// it. `what` is a phrase for the text that `wrong` continues.
    pub fn wrong_text(&mut self, check: Check, at: &PodField<'_>, value: &str, what: &str, wrong: &str) {
        let rule = kubelet_words(wrong, value);
        let why = format!("{what} {wrong}");
        self.violation_as(check, at, ViolationKind::Invalid, Some(format!("\"{value}\"")), &why, rule);
    }

    /// Records the problem of a value's format, if it has one.
    pub fn problem(&mut self, check: Check, at: &PodField<'_>, problem: FormatProblem) {
        if let Some(wrong) = problem {
            let rule = kubelet_words(wrong, at.str());
            self.violation_as(check, at, ViolationKind::Invalid, Some(at.shown()), wrong, rule);
        }
    }

    /// Applies a rule to a text. An absent field counts as an empty text.
    pub fn text(&mut self, check: Check, at: &PodField<'_>, rule: TextRule) {
        self.problem(check, at, rule(at.str()));
    }

    /// Applies a rule to a text that may be empty or absent.
    pub fn optional_text(&mut self, check: Check, at: &PodField<'_>, rule: TextRule) {
        if !at.is_empty() {
            self.text(check, at, rule);
        }
    }

    /// Applies a rule to a required text. `missing` is the message if the text is empty or absent.
    pub fn required_text(&mut self, check: Check, at: &PodField<'_>, missing: &str, rule: TextRule) {
        if self.not_empty(check, at, missing) {
            self.text(check, at, rule);
        }
    }

    /// Returns whether the value is not empty. Records that a required value is missing if it is empty.
    pub fn not_empty(&mut self, check: Check, at: &PodField<'_>, why: &str) -> bool {
        if at.is_empty() {
            self.required(check, at, why);
        }
        !at.is_empty()
    }

    /// Records that a name refers to something that does not exist.
    pub fn not_found(&mut self, check: Check, at: &PodField<'_>, why: &str) {
        self.violation(check, at, ViolationKind::NotFound, why);
    }

    /// Records that a value is too long.
    pub fn too_long(&mut self, check: Check, at: &PodField<'_>, why: &str) {
        self.violation(check, at, ViolationKind::TooLong, why);
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

    /// Returns whether the value is one of `allowed`. Records an error if not.
    pub fn one_of(&mut self, check: Check, at: &PodField<'_>, allowed: &[&str]) -> bool {
        let value = at.str();
        if allowed.contains(&value) {
            return true;
        }
        let shown: Vec<String> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
        let why = format!("must be one of {}, found \"{value}\"", shown.join(", "));
        let with_right_case = allowed.iter().find(|word| word.eq_ignore_ascii_case(value));
        self.violation(check, at, ViolationKind::Unsupported, &why);
        if let Some(word) = with_right_case {
            self.fix(format!("write `{word}`"));
        }
        false
    }

    /// Records an error if the field is present and its value is not one of `allowed`.
    pub fn optional_one_of(&mut self, check: Check, at: &PodField<'_>, allowed: &[&str]) {
        if at.is_set() {
            self.one_of(check, at, allowed);
        }
    }

    /// Whether this release applies feature gates when it validates a pod of a file. Up to 1.34 it does not: it validates
    /// such a pod as if all gates were off.
    pub const fn applies_feature_gates(&self) -> bool {
        self.version.at_least(35)
    }

    /// Returns the number of errors.
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
