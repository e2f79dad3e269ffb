//! Collects validation errors: as findings, and as the kubelet's log message with its order and its kinds of error.

use std::collections::HashSet;

use crate::Check;
use crate::finding::LintFinding;
use crate::pod_field::PodField;
use plegctl_api_values::names::kubelet_words;
use plegctl_base::report::word_enum;
use plegctl_node::kubelet::KubeletVersion;

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
    } ALL
}

impl ViolationKind {
    /// Returns the kind with this name in the table, such as `TooLong`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| format!("{kind:?}") == name)
    }

    /// Whether the kubelet's message shows the value. It shows a collection, and a number that occurs twice, in a form of
    /// its own.
    fn shows(self, at: &PodField<'_>) -> bool {
        match self {
            Self::Invalid | Self::Unsupported | Self::NotFound => !at.is_collection(),
            Self::Duplicate => at.is_text(),
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooMany => false,
        }
    }
}

/// The maximum number of errors in the result.
const MAX_REPORTED: usize = 1_000;

/// A pod under validation, and the errors found so far.
pub struct Validator<'a> {
    /// The kubelet release whose rules are applied.
    pub version: KubeletVersion,
    /// The spec of the pod.
    pub spec: PodField<'a>,
    /// The pod's full name, with the node's name.
    pub pod_name: &'a str,
    /// The node's name.
    pub node_name: &'a str,
    /// The check that reports the next error.
    pub check: Check,
    /// How to mend the next error.
    pub fix: Option<String>,
    /// The objects around the current one, from the outermost.
    pub owners: Vec<PodField<'a>>,
    /// The values that must be unique.
    pub seen: HashSet<Vec<String>>,
    /// The fields with errors. Only the first error of a field is reported.
    wrong_fields: HashSet<String>,
    findings: Vec<LintFinding>,
    /// The parts of the kubelet's log message.
    reasons: Vec<String>,
}

impl<'a> Validator<'a> {
    /// Creates a validator without errors.
    pub fn new(version: KubeletVersion, spec: PodField<'a>, pod_name: &'a str, node_name: &'a str) -> Self {
        Self {
            version,
            spec,
            pod_name,
            node_name,
            check: Check::OtherRule,
            fix: None,
            owners: Vec::new(),
            seen: HashSet::new(),
            wrong_fields: HashSet::new(),
            findings: Vec::new(),
            reasons: Vec::new(),
        }
    }

    /// Returns the object that has the current field.
    pub fn owner(&self) -> &PodField<'a> {
        self.owners.last().unwrap_or(&self.spec)
    }

    /// Records an error of the field `at`. The finding's message is the field's path, `: ` and `why`.
    pub fn error(&mut self, kind: ViolationKind, at: &PodField<'_>, why: &str) {
        let shown = kind.shows(at).then(|| at.shown());
        self.record(kind, at, shown, why, kubelet_words(why, at.str()));
    }

    /// Records that a value breaks a rule.
    pub fn invalid(&mut self, at: &PodField<'_>, why: &str) {
        self.error(ViolationKind::Invalid, at, why);
    }

    /// Records the problem `wrong` of the text `value`, which is a key, or the field's value after the kubelet has changed
    /// it. `what` is a phrase for the text that `wrong` continues.
    pub fn wrong_text(&mut self, at: &PodField<'_>, value: &str, what: &str, wrong: &str) {
        let why = format!("{what} {wrong}");
        let shown = Some(format!("\"{value}\""));
        self.record(ViolationKind::Invalid, at, shown, &why, kubelet_words(wrong, value));
    }

    /// Records an error. `shown` is the value in the kubelet's message, if it has one. `rule` is the kubelet's own text for
    /// `why`, if it is known.
    fn record(
        &mut self,
        kind: ViolationKind,
        at: &PodField<'_>,
        shown: Option<String>,
        why: &str,
        rule: Option<String>,
    ) {
        let path = at.path();
        if self.findings.len() >= MAX_REPORTED || !self.wrong_fields.insert(path.to_owned()) {
            return;
        }
        let parts = [Some(at.kubelet_path().to_owned()), Some(kind.words().to_owned()), shown, rule];
        self.reasons.push(parts.into_iter().flatten().collect::<Vec<_>>().join(": "));
        let mut finding = LintFinding::new(self.check, format!("{path}: {why}")).about(at);
        finding.fix.clone_from(&self.fix);
        self.findings.push(finding);
    }

    /// Adds the errors of another validator, which have this fix.
    pub fn append(&mut self, other: Validator<'_>, fix: &str) {
        self.reasons.extend(other.reasons);
        self.findings.extend(other.findings.into_iter().map(|finding| finding.with_fix(fix)));
    }

    /// Returns the kubelet's log message and the findings; `None` without errors.
    pub fn finish(self) -> Option<(String, Vec<LintFinding>)> {
        if self.findings.is_empty() {
            return None;
        }
        Some((format!("invalid pod: [{}]", self.reasons.join(" ")), self.findings))
    }
}
