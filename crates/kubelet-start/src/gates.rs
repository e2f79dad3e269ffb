//! Checks the feature gates of the command line and of the configuration files: KP010 to KP015.

use super::finding::StartFinding;
use super::release::{Builder, TargetKubelet, confidence_in_change};
use super::settings::Origin;
use super::tables::{Change, Gate, GateNeed, Known, Stage, Tables};
use plegctl_base::report::{Confidence, Places, Severity, most_similar};
use plegctl_node::kubelet::KubeletVersion;

/// A gate that only late patch releases of 1.31 and 1.32, and perhaps of 1.30, know. The number is the last such minor
/// release.
const LATE_GATE: (&str, u8) = ("OrderedNamespaceDeletion", 32);

/// A gate that a flag or a file sets.
#[derive(Clone, Debug)]
pub struct GateSetting {
    /// The name.
    pub name: String,
    /// Whether the gate is switched on.
    pub on: bool,
    /// Where the gate is set.
    pub origin: Origin,
    /// Whether a drop-in file sets the gate. Then the kubelet's message has another beginning.
    pub is_drop_in: bool,
}

/// Checks every gate.
pub fn check(gates: &[GateSetting], kubelet: TargetKubelet) -> Vec<StartFinding> {
    let of_each = gates.iter().filter_map(|gate| check_one(gate, kubelet));
    let needs = Tables::get().needs_of(kubelet.release);
    of_each.chain(needs.filter_map(|need| check_need(need, gates, kubelet.release))).collect()
}

/// Returns the last setting of a gate, which is the one that counts.
fn last<'a>(gates: &'a [GateSetting], name: &str) -> Option<&'a GateSetting> {
    gates.iter().rev().find(|gate| gate.name == name)
}

/// Returns whether a feature gate is on; `None` if this release does not know the gate.
pub fn is_on(gates: &[GateSetting], name: &str, release: KubeletVersion) -> Option<bool> {
    let state = Tables::get().gate(name)?.state(release)?;
    if state.locked {
        return Some(state.default);
    }
    let setting = last(gates, name).or_else(|| last(gates, group(state.stage)?));
    Some(setting.map_or(state.default, |setting| setting.on))
}

/// Returns the gate that switches all gates of a stage.
const fn group(stage: Stage) -> Option<&'static str> {
    match stage {
        Stage::Alpha => Some("AllAlpha"),
        Stage::Beta => Some("AllBeta"),
        Stage::Ga | Stage::Deprecated => None,
    }
}

/// Returns the finding about a gate that is on although it needs a gate that is off.
fn check_need(need: &GateNeed, gates: &[GateSetting], release: KubeletVersion) -> Option<StartFinding> {
    if is_on(gates, need.gate, release) != Some(true) {
        return None;
    }
    let is_off = |name: &&&str| is_on(gates, name, release) == Some(false);
    let off: Vec<&str> = need.needed.iter().filter(is_off).copied().collect();
    // With the defaults, no gate lacks a gate that it needs, so a setting is the cause.
    let mut causes = off.iter().copied().chain([need.gate, "AllBeta", "AllAlpha"]);
    let setting = causes.find_map(|name| last(gates, name))?;
    let why =
        format!("{} is enabled, but depends on features that are disabled: [{}]", need.gate, off.join(" "));
    let list = off.join(" and ");
    let why = reason(setting, &why, release);
    let places: &Places<'_> = &[("gate", &need.gate), ("list", &list), ("release", &release), ("why", &why)];
    // The rules of a release that is not in the tables completely are those of the release before.
    let is_confirmed = release <= KubeletVersion::CONFIRMED;
    (!off.is_empty()).then(|| {
        StartFinding::of("gate-needs-gate", places)
            .at(&setting.origin)
            .on(&format!("featureGates.{}", setting.name))
            .with_confidence(if is_confirmed { Confidence::Certain } else { Confidence::Likely })
    })
}

fn check_one(setting: &GateSetting, kubelet: TargetKubelet) -> Option<StartFinding> {
    let finding = match Tables::get().gate(&setting.name) {
        None => unlisted(setting, kubelet),
        Some(gate) => match gate.state(kubelet.release) {
            None => unknown(setting, gate, kubelet),
            Some(_) if is_not_judged(gate, kubelet.release) => not_judged(setting, kubelet.release),
            Some(state) if state.locked && state.default != setting.on => locked(setting, gate, kubelet),
            Some(state) => ending(setting, gate, state.stage, kubelet.release)?,
        },
    };
    let field = format!("featureGates.{}", setting.name);
    Some(finding.at(&setting.origin).on(&field))
}

/// Returns the kubelet's message about a gate. `why` is the last part of the message.
fn reason(setting: &GateSetting, why: &str, release: KubeletVersion) -> String {
    match &setting.origin {
        _ if setting.is_drop_in => why.to_owned(),
        // From 1.32 on, the kubelet sets the file's gates while it adds defaults, and an error there makes it panic.
        Origin::File { .. } if release.at_least(32) => format!(
            "panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: {why}"
        ),
        _ => format!("failed to set feature gates from initial flags-based config: {why}"),
    }
}

/// Adds the kubelet's message about an unknown gate. For `OpenShift`'s kubelet, the finding becomes information.
fn unrecognized(finding: StartFinding, setting: &GateSetting, kubelet: TargetKubelet) -> StartFinding {
    let why = format!("unrecognized feature gate: {}", setting.name);
    if kubelet.builder == Builder::OpenShift {
        return finding.with_reason(why).with_severity(Severity::Info);
    }
    finding.with_reason(reason(setting, &why, kubelet.release))
}

/// Returns what the kubelet does if it does not know a gate.
fn consequence(kubelet: TargetKubelet) -> String {
    match kubelet.builder {
        Builder::OpenShift => "OpenShift's kubelet logs a warning and starts".to_owned(),
        _ => format!("kubelet {} does not start", kubelet.release),
    }
}

/// Returns the finding about a gate that no release in the tables knows.
fn unlisted(setting: &GateSetting, kubelet: TargetKubelet) -> StartFinding {
    let name = &setting.name;
    let release = kubelet.release;
    if !kubelet.is_fully_known() && kubelet.builder != Builder::OpenShift {
        return StartFinding::of("gate-not-listed", &[("name", name), ("release", &release)]);
    }
    let known = Tables::get().gates_of(release);
    let near = most_similar(name, known.collect::<Vec<_>>());
    let near = near.map_or_else(|| "remove the gate".to_owned(), |near| format!("did you mean `{near}`?"));
    let places: &Places<'_> = &[
        ("name", name),
        ("oldest", &KubeletVersion::OLDEST),
        ("newest", &KubeletVersion::NEWEST),
        ("consequence", &consequence(kubelet)),
        ("fix", &near),
    ];
    let finding = StartFinding::of("unknown-gate", places);
    unrecognized(finding.with_confidence(kubelet.confidence_in_unknown_names()), setting, kubelet)
}

/// Returns the finding about a gate that this release does not know but other releases do.
fn unknown(setting: &GateSetting, gate: &Gate, kubelet: TargetKubelet) -> StartFinding {
    let name = &setting.name;
    let release = kubelet.release;
    let confidence_in_builder =
        if kubelet.builder == Builder::Upstream { Confidence::Certain } else { Confidence::Likely };
    let removal = gate.removed().filter(|change| release.at_least(change.minor));
    let consequence = consequence(kubelet);
    let finding = if let Some(Change { minor, known, .. }) = removal {
        let places: &Places<'_> = &[("name", name), ("minor", minor), ("consequence", &consequence)];
        StartFinding::of("removed-gate", places)
            .with_confidence(confidence_in_change(*known).max(confidence_in_builder))
    } else {
        let is_late = *name == LATE_GATE.0 && LATE_GATE.1 >= release.minor();
        let places: &Places<'_> = &[("name", name), ("since", &gate.since()), ("consequence", &consequence)];
        StartFinding::of("gate-of-later-release", places).with_confidence(if is_late {
            Confidence::Possible
        } else {
            confidence_in_builder
        })
    };
    unrecognized(finding, setting, kubelet)
}

/// Whether release notes say that Kubernetes has removed the gate, but not whether the kubelet still knows it.
fn is_not_judged(gate: &Gate, release: KubeletVersion) -> bool {
    gate.change(release).is_some_and(|change| change.known == Known::NotOfKubelet)
}

fn not_judged(setting: &GateSetting, release: KubeletVersion) -> StartFinding {
    StartFinding::of("gate-not-judged", &[("name", &setting.name), ("release", &release)])
}

fn locked(setting: &GateSetting, gate: &Gate, kubelet: TargetKubelet) -> StartFinding {
    let (name, on, release) = (&setting.name, setting.on, kubelet.release);
    let change = gate.locked_since(release);
    let (since, known) = change.map_or((0, Known::Certainly), |change| (change.minor, change.known));
    let why = format!("cannot set feature gate {name} to {on}, feature is locked to {}", !on);
    let why = reason(setting, &why, release);
    let places: &Places<'_> =
        &[("name", name), ("value", &!on), ("since", &since), ("release", &release), ("why", &why)];
    StartFinding::of("locked-gate", places).with_confidence(confidence_in_change(known))
}

/// Returns the finding about a gate that the kubelet accepts now but that a later release removes.
fn ending(setting: &GateSetting, gate: &Gate, stage: Stage, release: KubeletVersion) -> Option<StartFinding> {
    if !matches!(stage, Stage::Ga | Stage::Deprecated) {
        return None;
    }
    let name = &setting.name;
    let when = match gate.removed() {
        Some(Change { minor, .. }) => format!("kubelet 1.{minor} does not know it and does not start"),
        None => "a later release removes it".to_owned(),
    };
    let stage = if stage == Stage::Ga { "final" } else { "deprecated" };
    let places: &Places<'_> = &[("name", name), ("stage", &stage), ("release", &release), ("when", &when)];
    Some(StartFinding::of("ending-gate", places))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::catalogue::StartCheck;
    use super::*;
    use plegctl_api_values::tree::Position;

    fn checked(name: &str, on: bool, in_file: bool, kubelet: TargetKubelet) -> Option<StartFinding> {
        let file = Origin::File { file: Arc::from("c.yaml"), position: Position::START };
        let origin = if in_file { file } else { Origin::Flag("feature-gates".to_owned()) };
        check_one(&GateSetting { name: name.to_owned(), on, origin, is_drop_in: false }, kubelet)
    }

    fn upstream(name: &str, on: bool, release: &str) -> Option<(StartCheck, Confidence, String)> {
        let found = checked(name, on, true, TargetKubelet::upstream(release))?;
        Some((found.id, found.confidence, found.kubelet_reason.unwrap_or_default()))
    }

    #[test]
    fn a_locked_gate_is_refused_with_the_message_of_the_release() {
        let why = "cannot set feature gate KubeletTracing to false, feature is locked to true";
        let panic = format!(
            "panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: {why}"
        );
        assert_eq!(
            upstream("KubeletTracing", false, "1.36"),
            Some((StartCheck::LockedGate, Confidence::Certain, panic))
        );
        let by_flag = checked("KubeletTracing", false, false, TargetKubelet::upstream("1.36")).unwrap();
        let flags = format!("failed to set feature gates from initial flags-based config: {why}");
        assert_eq!(by_flag.kubelet_reason, Some(flags));
        assert_eq!(upstream("KubeletTracing", false, "1.33"), None);
        assert_eq!(upstream("KubeletTracing", true, "1.36").unwrap().0, StartCheck::EndingGate);
    }

    #[test]
    fn a_gate_is_refused_by_the_release_that_removed_it() {
        assert_eq!(upstream("APIListChunking", true, "1.32").unwrap().0, StartCheck::EndingGate);
        let (id, confidence, reason) = upstream("APIListChunking", true, "1.33").unwrap();
        assert_eq!((id, confidence), (StartCheck::RemovedGate, Confidence::Certain));
        assert!(reason.ends_with("error: unrecognized feature gate: APIListChunking"), "{reason}");
        let (_, _, reason) = upstream("APISelfSubjectReview", true, "1.30").unwrap();
        assert!(reason.starts_with("failed to set feature gates from"), "{reason}");
        let (id, confidence, _) = upstream("PreventStaticPodAPIReferences", true, "1.37").unwrap();
        assert_eq!((id, confidence), (StartCheck::RemovedGate, Confidence::Likely));
    }

    #[test]
    fn an_unknown_gate_is_only_possibly_refused_in_the_newest_release() {
        let (id, confidence, reason) = upstream("BrandNewGate", true, "1.37").unwrap();
        assert_eq!((id, confidence), (StartCheck::GateNotKnownHere, Confidence::Possible));
        assert_eq!(reason, "");
        assert_eq!(upstream("BrandNewGate", true, "1.36").unwrap().0, StartCheck::UnknownGate);
        assert_eq!(
            upstream("UserNamespacesPodSecurityStandards", true, "1.35").unwrap().0,
            StartCheck::RemovedGate
        );
    }

    #[test]
    fn the_gates_of_138_are_judged_as_far_as_the_draft_of_its_notes_decides() {
        for name in ["DynamicResourceAllocation", "KubeletTracing"] {
            let (id, confidence, reason) = upstream(name, true, "1.38").unwrap();
            assert_eq!((id, confidence), (StartCheck::RemovedGate, Confidence::Likely), "{name}");
            assert!(reason.ends_with(&format!("unrecognized feature gate: {name}")), "{reason}");
            assert_eq!(upstream(name, true, "1.37").unwrap().0, StartCheck::EndingGate);
        }
        for name in ["EnvFiles", "DRADeviceTaints", "DRADeviceTaintRules", "StrictIPCIDRValidation"] {
            let (id, confidence, _) = upstream(name, false, "1.38").unwrap();
            assert_eq!((id, confidence), (StartCheck::LockedGate, Confidence::Likely), "{name}");
            assert_ne!(upstream(name, false, "1.37").map(|found| found.0), Some(StartCheck::LockedGate));
        }
        for name in ["PodSchedulingReadiness", "MatchLabelKeysInPodAffinity", "CRDValidationRatcheting"] {
            let found = checked(name, true, true, TargetKubelet::upstream("1.38")).unwrap();
            assert_eq!((found.id, found.confidence), (StartCheck::GateNotKnownHere, Confidence::Possible));
            assert!(found.message.contains("does not judge"), "{}", found.message);
            assert_eq!(upstream(name, true, "1.37").unwrap().0, StartCheck::EndingGate, "{name}");
        }
    }

    #[test]
    fn openshifts_kubelet_only_warns() {
        let kubelet = |builder| TargetKubelet { builder, ..TargetKubelet::upstream("1.34") };
        let found = checked("RouteExternalCertificate", true, true, kubelet(Builder::OpenShift)).unwrap();
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(
            found.kubelet_reason.as_deref(),
            Some("unrecognized feature gate: RouteExternalCertificate")
        );
        let found = checked("APIListChunking", true, true, kubelet(Builder::Unknown)).unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Error, Confidence::Likely));
    }
}
