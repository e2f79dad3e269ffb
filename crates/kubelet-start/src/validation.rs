//! Applies the kubelet's validation of its merged settings, with the kubelet's own messages: KP030 to KP032 and KP040
//! (`pkg/kubelet/apis/config/validation/validation.go`).

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use super::gates::{self, GateSetting};
use super::release::TargetKubelet;
use super::settings::{MergedSettings, Origin, url_scheme};
use plegctl_api_values::names;
use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::reader::json_text;
use plegctl_api_values::tree::ManifestNode;
use plegctl_node::kubelet::{GoDuration, KubeletVersion, go_nanoseconds};

/// The cgroup version of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Version 1, also on a node with both versions.
    V1,
    /// Only version 2.
    V2,
}

/// Validates the merged settings.
pub fn validate(
    settings: &MergedSettings,
    gates: &[GateSetting],
    kubelet: TargetKubelet,
    cgroups: Option<CgroupVersion>,
) -> Vec<StartFinding> {
    let mut validator = Validation { settings, gates, release: kubelet.release, findings: Vec::new() };
    validator.check_numbers();
    validator.check_image_garbage_collection();
    validator.check_reservations();
    validator.check_shutdown();
    validator.check_block("words");
    validator.check_block("container logs");
    validator.check_gated_fields();
    validator.check_taints();
    validator.check_tracing();
    validator.check_logging();
    validator.check_other_fields();
    if let Some(version) = cgroups {
        validator.check_cgroups(version);
    }
    validator.findings
}

/// The settings, and the findings about them so far.
struct Validation<'a> {
    settings: &'a MergedSettings,
    gates: &'a [GateSetting],
    release: KubeletVersion,
    findings: Vec<StartFinding>,
}

/// The rules for single settings.
const TABLE: &str = include_str!("validation.txt");

/// A rule for the value of one setting.
struct Row {
    path: &'static str,
    rule: RowRule,
    /// The minor releases with this rule.
    minors: Range<u8>,
    gate: Option<RowGate>,
    /// Whether the other setting in the text must be as the text says, or must not.
    condition: Option<(&'static str, bool)>,
    check: StartCheck,
    /// How the kubelet's message begins.
    beginning: &'static str,
    /// The kubelet's message, in which `{}` is the value.
    message: &'static str,
}

/// The feature gate on which a rule depends.
enum RowGate {
    /// The rule is for a kubelet whose gate is on, or that does not know the gate.
    On(&'static str),
    /// The rule is for a kubelet whose gate is off.
    Off(&'static str),
}

/// What a value must be.
enum RowRule {
    /// An integer in one of these ranges.
    Number(Vec<RangeInclusive<i128>>),
    /// A duration in one of these ranges of nanoseconds.
    Duration(Vec<RangeInclusive<i128>>),
    /// One of these texts.
    OneOf(Vec<&'static str>),
    /// Another one than this; without a text, no value at all.
    Not(&'static str),
}

impl Row {
    /// Returns the rows of a block.
    fn of_block(name: &str) -> impl Iterator<Item = Self> {
        let block = TABLE.split("\n\n").find_map(|block| block.strip_prefix(name)?.strip_prefix('\n'));
        block.unwrap_or_default().lines().filter_map(Self::read)
    }

    /// Reads a row; `None` if it is malformed, which a test excludes.
    fn read(line: &'static str) -> Option<Self> {
        let (head, message) = line.split_once(" -- ")?;
        let mut words = head.split(' ');
        let (path, rule) = (words.next()?, rule(words.next()?)?);
        let (check, beginning) = (StartCheck::ValueRefused, INVALID);
        let mut row =
            Self { path, rule, minors: 0..u8::MAX, gate: None, condition: None, check, beginning, message };
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("since", minor) => row.minors.start = minor.parse().ok()?,
                ("until", minor) => row.minors.end = minor.parse().ok()?,
                ("on", gate) => row.gate = Some(RowGate::On(gate)),
                ("off", gate) => (row.gate, row.check) = (Some(RowGate::Off(gate)), StartCheck::NeedsGate),
                ("if", other) => row.condition = Some((other, true)),
                ("unless", other) => row.condition = Some((other, false)),
                ("bare", "") => row.beginning = "",
                (id, _) => row.check = StartCheck::named(id)?,
            }
        }
        Some(row)
    }

    /// Whether the other setting is as the condition says.
    fn applies(&self, settings: &MergedSettings) -> bool {
        let Some((other, expected)) = self.condition else { return true };
        let (paths, value) = other.split_once('=').map_or((other, None), |(path, value)| (path, Some(value)));
        let mut paths = paths.split(',');
        let is_so = paths.any(|path| match value {
            Some(value) => shown(settings, path).is_some_and(|shown| shown == value),
            None => settings.non_empty(path).is_some(),
        });
        is_so == expected
    }
}

/// Returns the value of a setting as text.
fn shown(settings: &MergedSettings, path: &str) -> Option<String> {
    Some(json_text(&settings.node(path)?.value).replace('"', ""))
}

fn rule(word: &'static str) -> Option<RowRule> {
    if let Some(texts) = word.strip_prefix("one-of=") {
        return Some(RowRule::OneOf(texts.split(',').collect()));
    }
    if let Some(text) = word.strip_prefix("not=") {
        return Some(RowRule::Not(text));
    }
    let ranges = word.split('|').map(range).collect::<Option<_>>()?;
    Some(if word.contains(char::is_alphabetic) { RowRule::Duration(ranges) } else { RowRule::Number(ranges) })
}

/// Reads a range of integers or durations, such as `0..100` or `1s..`.
fn range(text: &str) -> Option<RangeInclusive<i128>> {
    let bound = |text: &str| text.parse().ok().or_else(|| go_nanoseconds(text).ok().map(i128::from));
    let (low, high) = text.split_once("..")?;
    let low = if low.is_empty() { i128::MIN } else { bound(low)? };
    Some(low..=if high.is_empty() { i128::MAX } else { bound(high)? })
}

impl RowRule {
    /// Returns the value of a setting as messages show it, if the rule does not allow it.
    fn refused(&self, settings: &MergedSettings, path: &str) -> Option<String> {
        let is_outside =
            |ranges: &[RangeInclusive<i128>], value| !ranges.iter().any(|range| range.contains(&value));
        match self {
            Self::Number(ranges) => {
                let value = settings.int(path)?.value;
                is_outside(ranges, value).then(|| value.to_string())
            }
            Self::Duration(ranges) => {
                let value = settings.nanoseconds(path)?.value;
                is_outside(ranges, value.into()).then(|| braced(value))
            }
            Self::OneOf(texts) => {
                let value = settings.non_empty(path)?.value;
                (!texts.contains(&value.as_str())).then(|| format!("{value:?}"))
            }
            Self::Not(text) => {
                let value = shown(settings, path)?;
                let is_refused =
                    if text.is_empty() { !matches!(value.as_str(), "" | "[]") } else { value == *text };
                is_refused.then_some(value)
            }
        }
    }
}

const SECOND: i64 = 1_000_000_000;

/// How most messages begin.
const INVALID: &str = "invalid configuration: ";

/// The smallest number of user ids for each pod. A larger number must be a multiple of it.
const USER_IDS: i128 = 65536;

impl Validation<'_> {
    /// Adds a finding. `text` is the kubelet's message without `failed to validate kubelet configuration, error: `.
    fn refuse(&mut self, check: StartCheck, path: &str, text: &str) {
        let origin = self.settings.origin(path);
        let message = text.strip_prefix(INVALID).unwrap_or(text).to_owned();
        let finding = StartFinding::new(check, message)
            .at(&origin)
            .on(path)
            .with_reason(format!("failed to validate kubelet configuration, error: {text}"));
        self.findings.push(finding);
    }

    /// Adds a finding about a value that breaks a rule.
    fn invalid(&mut self, path: &str, text: impl Display) {
        self.refuse(StartCheck::ValueRefused, path, &format!("{INVALID}{text}"));
    }

    /// Adds a finding about each value that breaks a rule of a block of the table.
    fn check_block(&mut self, name: &str) {
        let minor = self.release.minor();
        for row in Row::of_block(name).filter(|row| row.minors.contains(&minor)) {
            let Some(value) = row.rule.refused(self.settings, row.path) else { continue };
            let message = row.message.replace("{}", &value);
            let applies = row.applies(self.settings)
                && row.gate.as_ref().is_none_or(|gate| match gate {
                    RowGate::On(gate) => !self.is_off(gate),
                    RowGate::Off(gate) => self.is_off(gate),
                });
            if applies {
                self.refuse(row.check, row.path, &format!("{}{message}", row.beginning));
            }
        }
    }

    /// Adds a finding about values that contradict each other.
    fn contradiction(&mut self, path: &str, text: impl Display) {
        self.refuse(StartCheck::ValuesContradict, path, &format!("{INVALID}{text}"));
    }

    /// Adds a finding about a setting whose feature gate is off.
    fn needs_gate(&mut self, path: &str, text: impl Display) {
        self.refuse(StartCheck::NeedsGate, path, &format!("{INVALID}{text}"));
    }

    /// Returns whether a feature gate is on; `None` if this release does not know the gate.
    fn gate(&self, name: &str) -> Option<bool> {
        gates::is_on(self.gates, name, self.release)
    }

    /// Whether this release knows a feature gate and the gate is off.
    fn is_off(&self, name: &str) -> bool {
        self.gate(name) == Some(false)
    }

    /// Checks the limits of numbers.
    fn check_numbers(&mut self) {
        self.check_block("numbers");
        if let Some(found) = self.settings.number("memoryThrottlingFactor")
            && !(found.value > 0.0 && found.value <= 1.0)
        {
            let text = format!(
                "memoryThrottlingFactor {} must be greater than 0 and less than or equal to 1.0",
                found.value
            );
            self.invalid("memoryThrottlingFactor", text);
        }
        if let Some(found) = self.settings.int("userNamespaces.idsPerPod") {
            let path = "userNamespaces.idsPerPod";
            match found.value {
                ids if ids < USER_IDS => {
                    self.invalid(path, format_args!("{path} must not be less than {USER_IDS}"));
                }
                ids if ids % USER_IDS != 0 => {
                    self.invalid(path, format_args!("{path} must be a multiple of {USER_IDS}"));
                }
                ids if ids > i128::from(u32::MAX) => {
                    self.invalid(path, format_args!("{path} must not be more than {}", u32::MAX));
                }
                _ => {}
            }
        }
    }

    /// Checks the settings of image garbage collection.
    fn check_image_garbage_collection(&mut self) {
        let percent =
            |path: &str, default: i128| self.settings.int(path).map_or(default, |found| found.value);
        let high = percent("imageGCHighThresholdPercent", 85);
        let low = percent("imageGCLowThresholdPercent", 80);
        if low >= high {
            let is_low = self.settings.is_set("imageGCLowThresholdPercent");
            let path = if is_low { "imageGCLowThresholdPercent" } else { "imageGCHighThresholdPercent" };
            self.contradiction(path, format_args!(
                "imageGCLowThresholdPercent (--image-gc-low-threshold) {low} must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
            ));
        }
        self.check_block("image ages");
        let Some(most) = self.settings.nanoseconds("imageMaximumGCAge").filter(|_| self.release.at_least(31))
        else {
            return;
        };
        // Zero means the default of two minutes.
        let least = self.settings.nanoseconds("imageMinimumGCAge").map_or(0, |found| found.value);
        let least = if least == 0 { 120 * SECOND } else { least };
        if most.value > 0 && most.value <= least {
            let (most, least) = (braced(most.value), braced(least));
            let text = format!("imageMaximumGCAge {most} must be greater than imageMinimumGCAge {least}");
            self.contradiction("imageMaximumGCAge", text);
        }
    }

    /// Checks `enforceNodeAllocatable` and the reserved cgroups and CPUs.
    fn check_reservations(&mut self) {
        const PATH: &str = "enforceNodeAllocatable";
        let enforced = self.settings.list(PATH);
        let keys: Vec<&str> = enforced
            .as_ref()
            .map_or_else(|| vec!["pods"], |found| found.value.iter().map(String::as_str).collect());
        let per_qos = self.settings.is_on("cgroupsPerQOS", true);
        // This release knows `system-reserved-compressible` and `kube-reserved-compressible`.
        let knows_compressible = self.release.at_least(32);
        if !per_qos && !self.release.at_least(31) && !keys.is_empty() {
            self.contradiction(
                "cgroupsPerQOS",
                "enforceNodeAllocatable (--enforce-node-allocatable) is not supported unless cgroupsPerQOS (--cgroups-per-qos) is set to true",
            );
        }
        for (index, key) in keys.iter().enumerate() {
            if keys.iter().take(index).any(|earlier| earlier == key) && self.release.at_least(31) {
                self.invalid(PATH, format_args!("duplicated enforcements {key:?} in enforceNodeAllocatable (--enforce-node-allocatable)"));
                continue;
            }
            let is_of = |group: &str| {
                let rest = key.strip_prefix(group).and_then(|rest| rest.strip_prefix("-reserved"));
                rest.is_some_and(|rest| rest.is_empty() || (rest == "-compressible" && knows_compressible))
            };
            match *key {
                "pods" if !per_qos && self.release.at_least(31) => self.contradiction("cgroupsPerQOS", format_args!(
                    "cgroupsPerQOS (--cgroups-per-qos) must be set to true when {key:?} contained in enforceNodeAllocatable (--enforce-node-allocatable)"
                )),
                _ if is_of("system") => self.check_cgroup_of(PATH, "system", knows_compressible),
                _ if is_of("kube") => self.check_cgroup_of(PATH, "kube", knows_compressible),
                "none" if keys.len() > 1 => self.contradiction(PATH, format_args!(
                    "enforceNodeAllocatable (--enforce-node-allocatable) may not contain additional enforcements when {key:?} is specified"
                )),
                "pods" | "none" => {}
                // The kubelet's message ends with the valid values. No recording of a real kubelet contains this
                // message, so the order of the values is not known, and the finding leaves them out.
                _ => self.invalid(PATH, format_args!("option {key:?} specified for enforceNodeAllocatable (--enforce-node-allocatable)")),
            }
        }
        if knows_compressible {
            for group in ["system", "kube"] {
                let (whole, part) = (format!("{group}-reserved"), format!("{group}-reserved-compressible"));
                if keys.contains(&whole.as_str()) && keys.contains(&part.as_str()) {
                    self.exclude_each_other(PATH, &whole, &part);
                }
            }
        }
        self.check_block("reservations");
        if let Some(cpus) = self.settings.non_empty("reservedSystemCPUs")
            && let Some(why) = cpu_set_error(&cpus.value)
        {
            let text =
                format!("unable to parse reservedSystemCPUs (--reserved-cpus) {}, error: {why}", cpus.value);
            self.invalid("reservedSystemCPUs", text);
        }
        self.check_block("cgroups");
    }

    /// Reports an enforcement without the cgroup that it needs.
    fn check_cgroup_of(&mut self, path: &str, group: &str, knows_compressible: bool) {
        if self.settings.non_empty(&format!("{group}ReservedCgroup")).is_some() {
            return;
        }
        let enforcement = if knows_compressible {
            format!("\"{group}-reserved\" or \"{group}-reserved-compressible\" included")
        } else {
            format!("\"{group}-reserved\" contained")
        };
        self.contradiction(path, format_args!(
            "{group}ReservedCgroup (--{group}-reserved-cgroup) must be specified when {enforcement} in enforceNodeAllocatable (--enforce-node-allocatable)"
        ));
    }

    /// Reports two enforcements that exclude each other. The finding does not quote the kubelet's message, because the
    /// order of the two names in this message depends on the release.
    fn exclude_each_other(&mut self, path: &str, whole: &str, part: &str) {
        let origin = self.settings.origin(path);
        let message = format!("both {whole:?} and {part:?} are in enforceNodeAllocatable");
        self.findings.push(StartFinding::new(StartCheck::ValuesContradict, message).at(&origin).on(path));
    }

    /// Checks the settings of graceful node shutdown.
    fn check_shutdown(&mut self) {
        let period = |path: &str| self.settings.nanoseconds(path).map_or(0, |found| found.value);
        let (all, critical) = (period("shutdownGracePeriod"), period("shutdownGracePeriodCriticalPods"));
        if critical > all {
            let path = "shutdownGracePeriodCriticalPods";
            let text = format!("{path} {} must be <= shutdownGracePeriod {}", braced(critical), braced(all));
            self.contradiction(path, text);
        }
        self.check_block("shutdown");
        if (all > 0 || critical > 0) && self.is_off("GracefulNodeShutdown") {
            self.needs_gate("shutdownGracePeriod", "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate GracefulNodeShutdown");
        }
        let path = "shutdownGracePeriodByPodPriority";
        let is_by_priority = self
            .settings
            .node(path)
            .is_some_and(|node| node.value.as_list().is_some_and(|list| !list.is_empty()));
        if is_by_priority && (all > 0 || critical > 0) {
            self.contradiction(path, "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time");
        }
        if is_by_priority && self.is_off("GracefulNodeShutdownBasedOnPodPriority") {
            self.needs_gate(path, "Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority");
        }
    }

    /// Checks the fields that need a feature gate.
    fn check_gated_fields(&mut self) {
        self.check_block("gates");
        self.check_restart_period();
        self.check_block("pull credentials");
    }

    /// Checks the longest time between two restarts of a container.
    fn check_restart_period(&mut self) {
        const PATH: &str = "crashLoopBackOff.maxContainerRestartPeriod";
        let Some(period) = self.settings.nanoseconds(PATH).filter(|_| self.release.at_least(32)) else {
            return;
        };
        let milliseconds = period.value / (SECOND / 1000);
        if !self.is_off("KubeletCrashLoopBackOffMax") && !(1000..=300_000).contains(&milliseconds) {
            #[expect(clippy::cast_precision_loss, reason = "Go prints the seconds as a float too")]
            let seconds = go_float(period.value as f64 / SECOND as f64);
            self.invalid(PATH, format_args!(
                "CrashLoopBackOff.MaxContainerRestartPeriod (got: {seconds} seconds) must be set between 1s and 300s"
            ));
        }
    }

    /// Checks the fields that belong to none of the other groups.
    fn check_other_fields(&mut self) {
        // If the field is absent or empty in a file, the kubelet uses containerd's socket. It applies the flag later,
        // so only an empty flag causes this error.
        if self
            .settings
            .text("containerRuntimeEndpoint")
            .is_some_and(|found| found.value.is_empty() && matches!(found.origin, Origin::Flag(_)))
        {
            self.invalid(
                "containerRuntimeEndpoint",
                "the containerRuntimeEndpoint was not specified or empty",
            );
        }
        self.check_block("other fields");
        if let Some(found) = self.settings.non_empty("showHiddenMetricsForVersion") {
            let previous = format!("1.{}", self.release.minor().saturating_sub(1));
            if found.value != previous {
                self.refuse(StartCheck::ValueRefused, "showHiddenMetricsForVersion", &format!(
                    "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: {:?}: must be omitted or have the value '{previous}'; only the previous minor version is allowed",
                    found.value
                ));
            }
        }
    }

    /// Checks the taints of the node.
    fn check_taints(&mut self) {
        const PATH: &str = "registerWithTaints";
        let Some(found) = self.settings.node(PATH) else { return };
        for taint in found.value.as_list().unwrap_or_default() {
            let part = |key: &str| taint.get(key).and_then(ManifestNode::as_str).unwrap_or_default();
            let (key, value, effect) = (part("key"), part("value"), part("effect"));
            let is_valid = names::qualified(key).is_none()
                && names::label_value(value).is_none()
                && matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute");
            if !is_valid {
                let text = format!("invalid taint: {{{key} {value} {effect} <nil>}}");
                self.refuse(StartCheck::ValueRefused, PATH, &text);
            }
            if taint.get("timeAdded").is_some_and(|time| !time.is_null()) {
                self.invalid(PATH, "taint.TimeAdded is not nil");
            }
        }
    }

    /// Checks where and how often the kubelet sends traces.
    fn check_tracing(&mut self) {
        // With the gate off, releases up to 1.34 refuse the settings without reading them.
        if self.is_off("KubeletTracing") {
            return;
        }
        self.check_block("tracing");
        let path = "tracing.endpoint";
        let Some(found) = self.settings.text(path) else { return };
        let endpoint =
            if found.value.contains("//") { found.value } else { format!("dns://{}", found.value) };
        let scheme = url_scheme(&endpoint).unwrap_or_default();
        if !matches!(scheme.as_str(), "dns" | "unix" | "unix-abstract") {
            self.refuse(StartCheck::ValueRefused, path, &format!(
                "{path}: Invalid value: {endpoint:?}: unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
            ));
        }
    }

    /// Adds a finding about a value for which the kubelet does not initialize its log. `text` is the kubelet's message.
    fn refuse_log(&mut self, check: StartCheck, path: &str, text: &str) {
        let finding = StartFinding::new(check, text)
            .at(&self.settings.origin(path))
            .on(path)
            .with_reason(format!("initialize logging: {text}"));
        self.findings.push(finding);
    }

    /// Checks the settings of the kubelet's own log.
    fn check_logging(&mut self) {
        let format = self.settings.non_empty("logging.format").map(|found| found.value);
        if let Some(format) = format.as_deref().filter(|format| !matches!(*format, "text" | "json")) {
            let text = format!("logging.format: Invalid value: {format:?}: Unsupported log format");
            self.refuse_log(StartCheck::ValueRefused, "logging.format", &text);
        }
        let path = "logging.flushFrequency";
        let frequency = self.settings.node(path).and_then(|found| match found.value.as_str() {
            Some(text) => go_nanoseconds(text)
                .ok()
                .filter(|value| *value < 0)
                .map(|value| format!("\"{}\"", go_text(value))),
            None => found.value.as_int().filter(|value| *value < 0).map(|value| value.to_string()),
        });
        if let Some(value) = frequency.filter(|_| self.release.at_least(35)) {
            let text = format!("{path}: Invalid value: {value}: Must be greater than zero");
            self.refuse_log(StartCheck::ValueRefused, path, &text);
        }
        let path = "logging.vmodule";
        let modules = self.settings.node(path).and_then(|found| found.value.as_list()).unwrap_or_default();
        if !modules.is_empty() && format.is_some_and(|format| format != "text") {
            let text = format!("{path}: Forbidden: Only supported for text log format");
            self.refuse_log(StartCheck::ValuesContradict, path, &text);
        }
        for (index, module) in modules.iter().enumerate() {
            let why = match module.get("filePattern").and_then(ManifestNode::as_str).unwrap_or_default() {
                "" => "Required value: File pattern must not be empty".to_owned(),
                pattern if pattern.contains(['=', ',']) => {
                    format!("Invalid value: {pattern:?}: File pattern must not contain equal sign or comma")
                }
                _ => continue,
            };
            self.refuse_log(StartCheck::ValueRefused, path, &format!("{path}[{index}]: {why}"));
        }
        for path in ["logging.options.text.infoBufferSize", "logging.options.json.infoBufferSize"] {
            let size = self.settings.node(path).map(|found| json_text(&found.value).replace('"', ""));
            let is_set = size.is_some_and(|size| Quantity::parse(&size).is_ok_and(|size| !size.is_zero()));
            if is_set && self.is_off("LoggingAlphaOptions") {
                let text = format!("{path}: Forbidden: Feature LoggingAlphaOptions is disabled");
                self.refuse_log(StartCheck::NeedsGate, path, &text);
            }
        }
    }

    /// Checks that the kubelet accepts the node's version of cgroups.
    fn check_cgroups(&mut self, version: CgroupVersion) {
        if version == CgroupVersion::V2 || !self.release.at_least(31) {
            return;
        }
        let fails_by_default = self.release.at_least(35);
        if self.settings.is_on("failCgroupV1", fails_by_default) {
            let rest = if fails_by_default {
                "unsupported and will be removed in a future release"
            } else {
                "in maintenance mode"
            };
            let text = format!(
                "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is {rest}"
            );
            let origin = self.settings.origin("failCgroupV1");
            let message = if origin == Origin::Default {
                format!("this node has cgroup v1, and failCgroupV1 is true by default in {}", self.release)
            } else {
                "this node has cgroup v1, and failCgroupV1 is true".to_owned()
            };
            self.findings.push(
                StartFinding::new(StartCheck::CgroupV1, message)
                    .at(&origin)
                    .on("failCgroupV1")
                    .with_reason(format!("failed to validate kubelet configuration, error: {text}"))
                    .with_fix("switch the node to cgroup v2, or set failCgroupV1: false until then"),
            );
        }
        self.check_block("cgroup v1");
    }
}

/// Formats a duration in braces, as Go prints a structure that contains a duration.
fn braced(nanoseconds: i64) -> String {
    format!("{{{}}}", go_text(nanoseconds))
}

/// Formats a duration as Go does.
fn go_text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    format!("{sign}{}", GoDuration(std::time::Duration::from_nanos(nanoseconds.unsigned_abs())))
}

/// Formats a float like Go's `%v`: from a million on with an exponent of at least two digits.
fn go_float(number: f64) -> String {
    let text = number.to_string();
    if number.abs() < 1e6 {
        return text;
    }
    let exponent = format!("{number:e}");
    exponent.split_once('e').map_or(text, |(digits, power)| format!("{digits}e+{power:0>2}"))
}

/// Returns the kubelet's error if a list of CPUs cannot be parsed.
fn cpu_set_error(text: &str) -> Option<String> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse::<u64>().ok() } else { None }
            .ok_or(format!("strconv.Atoi: parsing {text:?}: invalid syntax"))
    };
    for range in text.split(',') {
        let bounds: Result<Vec<u64>, String> = range.split('-').map(number).collect();
        match bounds.as_deref() {
            Err(why) => return Some(why.clone()),
            Ok([first, last]) if first > last => {
                return Some(format!("invalid range {range:?} ({first} > {last})"));
            }
            Ok(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read() {
        let blocks: Vec<&str> = TABLE.split("\n\n").skip(1).collect();
        for block in &blocks {
            let (name, rows) = block.split_once('\n').unwrap();
            assert_eq!(Row::of_block(name).count(), rows.lines().count(), "{name}");
            assert!(include_str!("validation.rs").contains(&format!("check_block({name:?})")), "{name}");
        }
        assert_eq!(blocks.len(), 12);
    }
}
