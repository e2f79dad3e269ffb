//! Parses a kubelet's command line like its flag library (pflag), and checks each flag against the release: KP001 to KP005.

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use super::release::{TargetKubelet, confidence_in_change};
use super::settings::Origin;
use super::tables::{Change, Flag, FlagKind, FlagState, Tables};
use plegctl_api_values::names;
use plegctl_base::report::{Places, most_similar};
use plegctl_node::host::parse_boolean;
use plegctl_node::kubelet::{KubeletVersion, go_nanoseconds};

/// A flag of `OpenShift`'s kubelet that no other kubelet has.
const OPENSHIFT_FLAG: &str = "max-housekeeping-interval";

/// One use of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagUse {
    /// The name, without the two dashes and with `-` instead of `_`.
    pub name: String,
    /// The value; `None` if the value is missing or no release knows the flag.
    pub value: Option<String>,
}

/// The flags of a command line in their order, and the findings about them.
#[derive(Debug, Default)]
pub struct ParsedFlags {
    /// The flags.
    pub flags: Vec<FlagUse>,
    /// The findings.
    pub findings: Vec<StartFinding>,
}

impl ParsedFlags {
    /// Returns the last value of a flag, which is the value that counts.
    pub fn last(&self, name: &str) -> Option<&str> {
        let mut uses = self.flags.iter().rev().filter(|flag| flag.name == name);
        uses.next().and_then(|flag| flag.value.as_deref())
    }

    /// Returns all values of a flag, in their order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.flags.iter().filter(move |flag| flag.name == name).filter_map(|flag| flag.value.as_deref())
    }
}

/// Parses arguments, without the program's name, for this kubelet.
pub fn parse(arguments: &[String], kubelet: TargetKubelet) -> ParsedFlags {
    let mut parsed = ParsedFlags::default();
    let mut rest = arguments.iter().peekable();
    let mut deprecated: Vec<String> = Vec::new();
    while let Some(word) = rest.next() {
        if word == "--" {
            rest.by_ref().for_each(|argument| parsed.findings.push(stray_argument(argument, None)));
            break;
        }
        let Some(text) = word.strip_prefix("--") else {
            if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                parse_short_flag(letters, &mut rest, &mut parsed);
            } else {
                let before = parsed.flags.last().filter(|flag| flag.value.as_deref() == Some("true"));
                let finding = stray_argument(word, before.map(|flag| flag.name.as_str()));
                parsed.findings.push(finding);
            }
            continue;
        };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let name = name.replace('_', "-");
        let Some(flag) = Tables::get().flag(&name) else {
            // The next argument may be the value of this unknown flag.
            if value.is_none() {
                rest.next_if(|next| !next.starts_with('-'));
            }
            parsed.findings.push(never_known(&name, kubelet));
            parsed.flags.push(FlagUse { name, value: None });
            continue;
        };
        let value = match (value, flag.kind) {
            (Some(value), _) => Some(value),
            (None, FlagKind::Bool) => Some("true".to_owned()),
            // `--version` prints the version without a value.
            (None, _) if name == "version" => Some("true".to_owned()),
            (None, _) => rest.next().cloned(),
        };
        match (flag.history.state(kubelet.release), &value) {
            (None, _) => parsed.findings.push(not_in_release(&name, flag, kubelet)),
            (Some(_), None) => {
                let finding = StartFinding::of_flag(&name, "flag-without-value", &[("name", &name)]);
                parsed.findings.push(finding);
            }
            (Some(state), Some(value)) => {
                parsed.findings.extend(bad_value(&name, value, flag.kind));
                if state == FlagState::Deprecated && !deprecated.contains(&name) {
                    deprecated.push(name.clone());
                    parsed.findings.push(deprecated_flag(&name, flag));
                }
            }
        }
        parsed.flags.push(FlagUse { name, value });
    }
    parsed
}

/// Parses a short flag. The kubelet has only `-h` and `-v`, as in `-v4`, `-v=4` and `-v 4`.
fn parse_short_flag<'a>(
    letters: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    parsed: &mut ParsedFlags,
) {
    let first = letters.chars().next().unwrap_or_default();
    match letters.strip_prefix('v') {
        Some(value) => {
            let attached = Some(value.strip_prefix('=').unwrap_or(value).to_owned());
            let value = if value.is_empty() { rest.next().cloned() } else { attached };
            parsed.findings.extend(value.as_deref().and_then(bad_verbosity));
            parsed.flags.push(FlagUse { name: "v".to_owned(), value });
        }
        None if letters == "h" => {}
        None => {
            let places: &Places<'_> = &[("first", &first), ("letters", &letters)];
            parsed.findings.push(StartFinding::of_flag(letters, "short-flag", places));
        }
    }
}

fn bad_verbosity(value: &str) -> Option<StartFinding> {
    let is_wrong = value.parse::<i32>().is_err();
    is_wrong.then(|| StartFinding::of_flag("v", "wrong-verbosity", &[("value", &value)]))
}

/// Returns the finding about an argument that is not a flag. `flag_before` is the boolean flag before the argument, which
/// may be meant as its value.
fn stray_argument(word: &str, flag_before: Option<&str>) -> StartFinding {
    let finding = StartFinding::of("stray-argument", &[("word", &word)]);
    match flag_before {
        Some(flag) if parse_boolean(word).is_some() => {
            finding.at(&Origin::Flag(flag.to_owned())).with_fix(format!("write `--{flag}={word}`"))
        }
        _ => finding,
    }
}

/// Returns the finding about a flag that no release in the tables knows.
fn never_known(name: &str, kubelet: TargetKubelet) -> StartFinding {
    if name == OPENSHIFT_FLAG && kubelet.may_be_openshift() {
        return StartFinding::of_flag(name, "flag-of-openshift", &[("name", &name)]);
    }
    let known = Tables::get().flags_of(kubelet.release);
    let near = most_similar(name, known.collect::<Vec<_>>());
    let fix = near.map_or_else(|| "remove the flag".to_owned(), |near| format!("did you mean `--{near}`?"));
    let places: &Places<'_> = &[
        ("name", &name),
        ("oldest", &KubeletVersion::OLDEST),
        ("newest", &KubeletVersion::NEWEST),
        ("release", &kubelet.release),
        ("fix", &fix),
    ];
    StartFinding::of_flag(name, "unknown-flag", places).with_confidence(kubelet.confidence_in_unknown_names())
}

/// Returns the finding about a flag that this release does not know but other releases do.
fn not_in_release(name: &str, flag: &Flag, kubelet: TargetKubelet) -> StartFinding {
    let release = kubelet.release;
    let removal = flag.history.removed().filter(|change| release.at_least(change.minor));
    if let Some(Change { minor, known, .. }) = removal {
        let row = if flag.field.is_some() { "replaced-flag" } else { "removed-flag" };
        let field = flag.field.unwrap_or_default();
        let places: &Places<'_> =
            &[("name", &name), ("minor", minor), ("release", &release), ("field", &field)];
        return StartFinding::of_flag(name, row, places).with_confidence(confidence_in_change(*known));
    }
    let places: &Places<'_> = &[("name", &name), ("since", &flag.history.since()), ("release", &release)];
    StartFinding::of_flag(name, "flag-of-later-release", places)
}

fn deprecated_flag(name: &str, flag: &Flag) -> StartFinding {
    let message = match flag.history.removed() {
        Some(Change { minor, .. }) => {
            format!("--{name} is deprecated; kubelet 1.{minor} does not know it and does not start")
        }
        None => format!("--{name} is deprecated"),
    };
    let finding = StartFinding::new(StartCheck::DeprecatedFlag, message).at(&Origin::Flag(name.to_owned()));
    match flag.field {
        Some(field) => finding.with_fix(format!("set `{field}` in the configuration file instead")),
        None => finding,
    }
}

/// Returns the finding about a value that the flag library cannot parse.
fn bad_value(name: &str, value: &str, kind: FlagKind) -> Option<StartFinding> {
    let why = match kind {
        FlagKind::Bool if !is_go_bool(value) => {
            format!("strconv.ParseBool: parsing {value:?}: invalid syntax")
        }
        FlagKind::Int(bits) => integer_error(value, bits)?,
        FlagKind::Duration => go_nanoseconds(value).err()?,
        FlagKind::Text if name == "feature-gates" => gates_error(value)?,
        FlagKind::Text if name == "register-with-taints" => taints_error(value)?,
        _ => return None,
    };
    let quoted = format!("{value:?}");
    let places: &Places<'_> = &[("name", &name), ("value", &value), ("quoted", &quoted), ("why", &why)];
    Some(StartFinding::of_flag(name, "flag-value", places))
}

/// Whether Go's strconv.ParseBool accepts the text.
fn is_go_bool(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True" | "0" | "f" | "F" | "FALSE" | "false" | "False")
}

/// Returns Go's error if a value is not an integer of this many bits.
fn integer_error(value: &str, bits: u8) -> Option<String> {
    // Go also accepts values such as 0x10 and 1_000, which plegctl does not check.
    if value.starts_with("0x") || value.contains('_') {
        return None;
    }
    match value.parse::<i128>() {
        Err(_) => Some(format!("strconv.ParseInt: parsing {value:?}: invalid syntax")),
        Ok(number) if number.unsigned_abs() >= 1 << (bits - 1) && number != -(1 << (bits - 1)) => {
            Some(format!("strconv.ParseInt: parsing {value:?}: value out of range"))
        }
        Ok(_) => None,
    }
}

/// Returns the library's error if a value is not a list of feature gates.
fn gates_error(value: &str) -> Option<String> {
    for pair in value.split(',').filter(|pair| !pair.is_empty()) {
        let Some((name, on)) = pair.split_once('=') else {
            return Some("malformed pair, expect string=bool".to_owned());
        };
        let (name, on) = (name.trim(), on.trim());
        if !is_go_bool(on) {
            return Some(format!(
                "invalid value of {name}: {on}, err: strconv.ParseBool: parsing {on:?}: invalid syntax"
            ));
        }
    }
    None
}

/// Returns the kubelet's error if a value is not a list of taints (`ParseTaints`). About a key or a value that is not
/// valid, the kubelet adds the rule.
fn taints_error(value: &str) -> Option<String> {
    let mut earlier: Vec<(&str, &str)> = Vec::new();
    for spec in value.split(',').filter(|_| !value.is_empty()) {
        let is_removal = spec.ends_with('-');
        let taint = spec.strip_suffix('-').unwrap_or(spec);
        let (pair, effect) = taint.split_once(':').unwrap_or((taint, ""));
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute")
            && taint.matches(':').count() == 1
        {
            return Some(format!("invalid taint effect: {effect}, unsupported taint effect"));
        }
        let (key, label) = pair.split_once('=').unwrap_or((pair, ""));
        let is_valid = (is_removal || !effect.is_empty())
            && !effect.contains(':')
            && names::qualified(key).is_none()
            && names::label_value(label).is_none();
        if !is_valid {
            return Some(format!("invalid taint spec: {taint}"));
        }
        if is_removal {
            continue;
        }
        if earlier.contains(&(key, effect)) {
            return Some(format!(
                "duplicated taints with the same key and effect: {{{key} {label} {effect} <nil>}}"
            ));
        }
        earlier.push((key, effect));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use plegctl_base::report::{Confidence, Severity};
    use plegctl_node::host::shell_words;

    fn parsed(text: &str, release: &str) -> ParsedFlags {
        parse(&shell_words(text), TargetKubelet::upstream(release))
    }

    /// Returns the ids and the kubelet's messages of the errors.
    fn errors(text: &str, release: &str) -> Vec<String> {
        let findings = parsed(text, release).findings.into_iter();
        let errors = findings.filter(|finding| finding.severity == Severity::Error);
        errors
            .map(|finding| format!("{} {}", finding.id, finding.kubelet_reason.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn each_release_refuses_the_flags_that_it_does_not_know() {
        assert_eq!(errors("--pod-infra-container-image=p:3.9", "1.34"), [""; 0]);
        assert_eq!(
            errors("--pod-infra-container-image p:3.9 --v=2", "1.36"),
            ["KP002 failed to parse kubelet flag: unknown flag: --pod-infra-container-image"]
        );
        assert_eq!(
            errors("--fail-cgroupv1=false", "1.30"),
            ["KP001 failed to parse kubelet flag: unknown flag: --fail-cgroupv1"]
        );
        assert_eq!(
            errors("--no-such-flag x --max_pods=5", "1.36"),
            ["KP001 failed to parse kubelet flag: unknown flag: --no-such-flag"]
        );
    }

    #[test]
    fn a_value_that_cannot_be_parsed_has_the_librarys_message() {
        assert_eq!(
            errors("--fail-swap-on=maybe", "1.36"),
            [
                "KP004 failed to parse kubelet flag: invalid argument \"maybe\" for \"--fail-swap-on\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax"
            ]
        );
        assert_eq!(
            errors("--feature-gates=EventedPLEG=maybe", "1.36"),
            [
                "KP004 failed to parse kubelet flag: invalid argument \"EventedPLEG=maybe\" for \"--feature-gates\" flag: invalid value of EventedPLEG: maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax"
            ]
        );
        assert_eq!(
            errors("--feature-gates EventedPLEG", "1.36"),
            [
                "KP004 failed to parse kubelet flag: invalid argument \"EventedPLEG\" for \"--feature-gates\" flag: malformed pair, expect string=bool"
            ]
        );
        assert_eq!(errors("--max-pods=110 --v=4 -v2 --oom-score-adj=-999", "1.36"), [""; 0]);
    }

    #[test]
    fn the_value_of_a_boolean_flag_needs_an_equals_sign() {
        let found = parsed("--fail-swap-on false --config /c", "1.36");
        let stray = found.findings.iter().find(|finding| finding.id == StartCheck::StrayArgument).unwrap();
        assert_eq!(stray.kubelet_reason.as_deref(), Some("unknown command false"));
        assert_eq!(stray.fix.as_deref(), Some("write `--fail-swap-on=false`"));
        assert_eq!(found.last("config"), Some("/c"));
    }

    #[test]
    fn a_deprecated_flag_is_information() {
        let found = parsed("--container-runtime-endpoint=unix:///x", "1.36").findings;
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        let ending = parsed("--containerd=/x", "1.36").findings;
        assert!(ending[0].message.contains("1.37"), "{ending:?}");
        let gone = &parsed("--containerd=/x", "1.37").findings[0];
        assert_eq!((gone.id, gone.confidence), (StartCheck::RemovedFlag, Confidence::Likely));
    }
}
