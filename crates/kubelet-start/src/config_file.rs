//! Decodes a configuration file of the kubelet, and reports the errors for which the kubelet does not start and the fields
//! that it ignores: KP021 to KP025.

use std::sync::Arc;

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use super::release::TargetKubelet;
use super::settings::{Origin, is_free_mapping};
use super::tables::Tables;
use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::reader::{ReaderNotes, SyntaxFault, float, json_text, read};
use plegctl_api_values::tree::{ManifestNode, Map, MapEntry, Position, Value};
use plegctl_base::report::{Confidence, most_similar};
use plegctl_node::kubelet::go_nanoseconds;

/// The kind of a configuration file.
pub const KIND: &str = "KubeletConfiguration";
/// The only version of the kind that the kubelet reads.
pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// How to write a duration.
const DURATION: &str = "write a number with a unit, such as 10s or 5m";

/// A decoded configuration file.
pub struct DecodedConfig {
    /// The document; `None` if the file is not a configuration of the kubelet.
    pub root: Option<ManifestNode>,
    /// The text, from which the output shows the line of a finding.
    pub text: Arc<str>,
    /// The findings.
    pub findings: Vec<StartFinding>,
}

/// A configuration file to decode.
pub struct ConfigText<'a> {
    /// The path, as the kubelet sees it.
    pub path: &'a Arc<str>,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the file is a drop-in file.
    pub is_drop_in: bool,
}

/// Decodes a file.
pub fn decode(file: &ConfigText<'_>, kubelet: TargetKubelet) -> DecodedConfig {
    let mut decoder =
        ConfigDecoder { file, kubelet, is_json: false, findings: Vec::new(), type_errors: Vec::new() };
    if file.bytes.is_empty() {
        let finding = StartFinding::new(StartCheck::ConfigNotYaml, "the file is empty");
        let why = format!("kubelet config file \"{}\" was empty", file.path);
        decoder.refuse(finding, Position::START, Some(&why), "");
        return decoder.decoded(None, Arc::from(""));
    }
    let result = read(file.bytes);
    let root = match result.root {
        Ok(root) => root,
        Err(fault) if fault.fault == SyntaxFault::NotJudged => return decoder.decoded(None, result.text),
        Err(fault) => {
            let mut finding = StartFinding::new(StartCheck::ConfigNotYaml, fault.message);
            finding.fix = fault.fix;
            let reason = Some(fault.reason.as_str()).filter(|reason| reason.starts_with("yaml: "));
            decoder.refuse(finding, fault.position.unwrap_or(Position::START), reason, "failed to decode: ");
            return decoder.decoded(None, result.text);
        }
    };
    decoder.is_json = result.notes.json;
    decoder.check_repeated_keys(&result.notes);
    if decoder.check_kind(&root) {
        decoder.mapping(&root, "", "", KIND);
        decoder.report_type_errors();
        return decoder.decoded(Some(root), result.text);
    }
    decoder.decoded(None, result.text)
}

/// A value of the wrong type.
struct TypeError {
    finding: StartFinding,
    position: Position,
    /// The kubelet's message.
    reason: String,
    /// Whether the kubelet stops decoding at this value, so that its message names this value.
    ends_decoding: bool,
}

/// Decodes one file.
///
/// Its methods pass three names of a field: `path` in the tables, `shown` with indexes for messages, and `structure`, the
/// Go structure that contains the field, as the kubelet's message names it.
struct ConfigDecoder<'a> {
    file: &'a ConfigText<'a>,
    kubelet: TargetKubelet,
    is_json: bool,
    findings: Vec<StartFinding>,
    type_errors: Vec<TypeError>,
}

impl ConfigDecoder<'_> {
    /// Returns the result with the findings so far.
    fn decoded(self, root: Option<ManifestNode>, text: Arc<str>) -> DecodedConfig {
        DecodedConfig { root, text, findings: self.findings }
    }

    /// Returns a position in this file as the origin of a setting.
    fn origin(&self, position: Position) -> Origin {
        Origin::File { file: Arc::clone(self.file.path), position }
    }

    /// Adds a finding about an error with which the kubelet does not start. `reason` is the last part of the kubelet's
    /// message, `step` the part before it.
    fn refuse(&mut self, finding: StartFinding, at: Position, reason: Option<&str>, step: &str) {
        let finding = finding.at(&self.origin(at));
        let finding = match reason {
            None => finding,
            // The beginning of the message about a drop-in file was not recorded.
            Some(reason) if self.file.is_drop_in => finding.with_reason(reason),
            Some(reason) => {
                finding.with_reason(load_error(self.file.path, &format!("{step}{reason}"), self.kubelet))
            }
        };
        let is_inferred = self.file.is_drop_in;
        self.findings.push(if is_inferred { finding.with_confidence(Confidence::Likely) } else { finding });
    }

    /// Reports keys that occur twice.
    fn check_repeated_keys(&mut self, notes: &ReaderNotes) {
        for key in &notes.duplicate_keys {
            let message = format!(
                "`{}` is also set in line {}; the kubelet uses the later value",
                key.key, key.first.line
            );
            let finding = StartFinding::new(StartCheck::RepeatedKey, message)
                .at(&self.origin(key.again))
                .with_reason(format!("key {:?} already set in map", key.key))
                .with_fix("remove one of the two lines");
            self.findings.push(finding);
        }
    }

    /// Returns whether the file is a configuration of the kubelet, according to kind and apiVersion. Reports an error if
    /// not.
    fn check_kind(&mut self, root: &ManifestNode) -> bool {
        let text = |key: &str| root.get(key).and_then(ManifestNode::as_str).unwrap_or_default();
        let (kind, version) = (text("kind"), text("apiVersion"));
        if (kind, version) == (KIND, API_VERSION) {
            return true;
        }
        let wrong = if kind.is_empty() && !version.is_empty() { "kind" } else { "apiVersion" };
        let position = root.get(wrong).map_or(Position::START, |node| node.position);
        let missing = |key: &str, field: &str| {
            let is_other = root.get(key).is_some_and(|node| !node.is_null() && node.as_str() != Some(""));
            let reason = (!is_other).then(|| format!("Object '{field}' is missing in '…'"));
            (format!("`{key}` is missing"), reason)
        };
        let (message, reason) = if root.as_map().is_none() && !root.is_null() {
            ("the file is not a mapping of settings".to_owned(), None)
        } else if kind.is_empty() {
            missing("kind", "Kind")
        } else if version.is_empty() {
            missing("apiVersion", "apiVersion")
        } else {
            let is_other_kind = matches!(kind, "SerializedNodeConfigSource" | "CredentialProviderConfig");
            let reason = (!is_other_kind)
                .then(|| format!("no kind {kind:?} is registered for version {version:?} in scheme"));
            (format!("the kubelet does not read kind {kind} of {version}"), reason)
        };
        let finding = StartFinding::new(StartCheck::ConfigOfOtherKind, message)
            .with_fix(format!("write apiVersion: {API_VERSION} and kind: {KIND}"));
        self.refuse(finding, position, reason.as_deref(), "failed to decode: ");
        false
    }

    /// Checks the fields of an object.
    fn mapping(&mut self, node: &ManifestNode, path: &str, shown: &str, structure: &str) {
        let Some(map) = node.as_map() else { return };
        for entry in self.in_order(map) {
            let joined = |parent: &str| match parent {
                "" => entry.key.to_string(),
                parent => format!("{parent}.{}", entry.key),
            };
            let (field_path, shown) = (joined(path), joined(shown));
            match Tables::get().field(&field_path) {
                Some(field) if self.kubelet.release.known().at_least(field.since) => {
                    self.value(&entry.value, &field_path, &shown, structure, field.go_type);
                }
                Some(field) => self.unknown_field(entry, &shown, path, Some(field.since)),
                None => self.unknown_field(entry, &shown, path, None),
            }
        }
    }

    /// Returns the entries in the order in which Go decodes them. The kubelet first converts YAML into JSON with sorted keys.
    fn in_order<'m>(&self, map: &'m Map) -> Vec<&'m MapEntry> {
        let mut entries: Vec<&MapEntry> = map.entries().iter().collect();
        if !self.is_json {
            entries.sort_by(|left, right| left.key.cmp(&right.key));
        }
        entries
    }

    /// Reports a field that the release does not know. `since` is the first release that knows the field, if any.
    fn unknown_field(&mut self, entry: &MapEntry, shown: &str, parent: &str, since: Option<u8>) {
        let release = self.kubelet.release;
        let message = match since {
            Some(since) => format!("kubelet {release} ignores `{shown}`, which exists from 1.{since} on"),
            None => format!("the kubelet does not know `{shown}` and ignores it"),
        };
        let finding = StartFinding::new(StartCheck::UnknownConfigField, message)
            .at(&self.origin(entry.key_position))
            .on(shown)
            .with_reason(format!("strict decoding error: unknown field {shown:?}"));
        let confidence = if self.kubelet.is_fully_known() || since.is_some() {
            Confidence::Certain
        } else {
            Confidence::Likely
        };
        let near = most_similar(&entry.key, Tables::get().fields_below(parent));
        self.findings.push(
            match (near, since) {
                (Some(near), None) => finding.with_fix(format!("did you mean `{near}`?")),
                _ => finding,
            }
            .with_confidence(confidence),
        );
    }

    /// Checks a value against its Go type.
    fn value(&mut self, node: &ManifestNode, path: &str, shown: &str, structure: &str, go_type: &str) {
        if node.is_null() {
            return;
        }
        match go_type {
            "string" | "bool" | "float64" => self.expect(node, shown, structure, go_type),
            "int32" => self.integer(node, shown, structure, go_type, 31),
            "int64" => self.integer(node, shown, structure, go_type, 63),
            "VerbosityLevel" => self.integer(node, shown, structure, "v1.VerbosityLevel", 32),
            "metav1.Duration" => self.duration(node, shown, structure),
            "TimeOrMetaDuration" if is_text(node) => self.duration(node, shown, structure),
            "TimeOrMetaDuration" => self.nanoseconds(node, shown),
            "resource.QuantityValue" => self.quantity(node, shown),
            "[]string" | "[]int32" => {
                let items = node.as_list().map(|items| items.iter().collect());
                self.expect_each(items, node, shown, structure, go_type);
            }
            "map[string]bool" | "map[string]string" | "map[string][]string" => {
                let entries = node.as_map().map(|map| self.in_order(map).into_iter());
                let values = entries.map(|entries| entries.map(|entry| &entry.value).collect());
                self.expect_each(values, node, shown, structure, go_type);
            }
            "KubeletAuthorizationMode"
            | "ResourceChangeDetectionStrategy"
            | "ImagePullCredentialsVerificationPolicy"
            | "MemoryReservationPolicy" => {
                self.expect(node, shown, structure, &format!("v1beta1.{go_type}"));
            }
            _ if Tables::get().fields_below(path).next().is_some() => {
                let name = go_type.rsplit('.').next().unwrap_or(go_type);
                if node.as_map().is_some() {
                    self.mapping(node, path, shown, name);
                } else {
                    self.mismatch(node, shown, structure, &with_package(path, name));
                }
            }
            "VModuleConfiguration" if node.as_list().is_none() => {
                self.mismatch(node, shown, structure, "v1.VModuleConfiguration");
            }
            "VModuleConfiguration" => self.objects(node, path, shown, structure, "[]v1.VModuleItem"),
            _ if go_type.starts_with("[]") => self.objects(node, path, shown, structure, go_type),
            _ => {}
        }
    }

    /// Checks a list of objects.
    fn objects(&mut self, node: &ManifestNode, path: &str, shown: &str, structure: &str, go_type: &str) {
        let name = go_type.trim_start_matches("[]");
        let name = if name.contains('.') { name.to_owned() } else { format!("v1beta1.{name}") };
        let Some(items) = node.as_list() else {
            return self.mismatch(node, shown, structure, &format!("[]{name}"));
        };
        let bare = name.rsplit('.').next().unwrap_or_default().to_owned();
        for (index, item) in items.iter().enumerate() {
            if item.as_map().is_some() {
                self.mapping(item, &format!("{path}[]"), &format!("{shown}[{index}]"), &bare);
            } else if !item.is_null() {
                // The kubelet's message has the path of the list, without the index.
                self.mismatch(item, shown, structure, &name);
            }
        }
    }

    /// Reports a type error if the value does not have this Go type. Types that are not listed are texts.
    fn expect(&mut self, node: &ManifestNode, shown: &str, structure: &str, go_type: &str) {
        let is_right = match go_type {
            "bool" => node.as_bool().is_some(),
            "int32" => node.as_int().is_some(),
            "float64" => matches!(node.value, Value::Int(_) | Value::Float(_)),
            "[]string" => node.as_list().is_some(),
            _ => is_text(node),
        };
        if !node.is_null() && !is_right {
            self.mismatch(node, shown, structure, go_type);
        }
    }

    /// Checks an integer of this many bits.
    fn integer(&mut self, node: &ManifestNode, shown: &str, structure: &str, go_type: &str, bits: u32) {
        let limit = 1_i128 << bits;
        let smallest = if go_type == "v1.VerbosityLevel" { 0 } else { -limit };
        if !node.as_int().is_some_and(|number| (smallest..limit).contains(&number)) {
            self.mismatch(node, shown, structure, go_type);
        }
    }

    /// Checks the values of a list, or of a mapping with any keys. `values` is `None` if `node` is no such collection.
    fn expect_each(
        &mut self,
        values: Option<Vec<&ManifestNode>>,
        node: &ManifestNode,
        shown: &str,
        structure: &str,
        go_type: &str,
    ) {
        let Some(values) = values else { return self.mismatch(node, shown, structure, go_type) };
        let value_type = go_type.strip_prefix("[]").unwrap_or(go_type.trim_start_matches("map[string]"));
        for value in values {
            self.expect(value, shown, structure, value_type);
        }
    }

    /// Checks a duration.
    fn duration(&mut self, node: &ManifestNode, shown: &str, structure: &str) {
        let Some(text) = node.as_str() else {
            self.mismatch(node, shown, structure, "string");
            // Go calls the duration's own decoder, and an error in it ends the decoding.
            if let Some(error) = self.type_errors.last_mut() {
                error.ends_decoding = true;
                error.finding.message =
                    format!("`{shown}` is {}, not a duration such as \"10s\"", node.type_name());
            }
            return;
        };
        if let Err(reason) = go_nanoseconds(text) {
            let message = format!("`{shown}` is `{text}`, which is not a duration");
            self.undecodable(node, shown, message, Some(DURATION), reason);
        }
    }

    /// Checks a duration that is written as a number of nanoseconds.
    fn nanoseconds(&mut self, node: &ManifestNode, shown: &str) {
        if node.as_int().is_some_and(|number| i64::try_from(number).is_ok()) {
            return;
        }
        let message = format!("`{shown}` is {}, not a duration such as \"10s\"", node.type_name());
        let reason = format!(
            "invalid duration {:?}: json: cannot unmarshal {} into Go value of type time.Duration",
            json_text(node),
            go_value(node, true)
        );
        self.undecodable(node, shown, message, Some(DURATION), reason);
    }

    /// Checks a quantity.
    fn quantity(&mut self, node: &ManifestNode, shown: &str) {
        let text = match &node.value {
            Value::Str(text) => text.to_string(),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => float(*number),
            _ => node.type_name().to_owned(),
        };
        if let Err(why) = Quantity::parse_by(&text, self.kubelet.release) {
            let message = format!("`{shown}` is `{text}`, which is not a quantity");
            self.undecodable(node, shown, message, None, why.to_string());
        }
    }

    /// Notes a value whose own decoder ends the decoding, with its message.
    fn undecodable(
        &mut self,
        node: &ManifestNode,
        shown: &str,
        message: String,
        fix: Option<&str>,
        reason: String,
    ) {
        let mut finding = StartFinding::new(StartCheck::WrongType, message).on(shown);
        finding.fix = fix.map(str::to_owned);
        self.type_errors.push(TypeError { finding, position: node.position, reason, ends_decoding: true });
    }

    /// Notes a value of the wrong type, with Go's message.
    fn mismatch(&mut self, node: &ManifestNode, shown: &str, structure: &str, go_type: &str) {
        let is_number_type = matches!(go_type, "int32" | "int64" | "v1.VerbosityLevel");
        let value = go_value(node, is_number_type);
        // `splitStream` belongs to an embedded structure, whose name is in Go's message.
        let field = match shown.strip_suffix(".splitStream") {
            Some(parent) => format!("{parent}.OutputRoutingOptions.splitStream"),
            None => without_indexes(shown),
        };
        let reason = format!(
            "json: cannot unmarshal {value} into Go struct field {structure}.{field} of type {go_type}"
        );
        let wanted = match go_type {
            "string" => "a text",
            "bool" => "true or false",
            _ if is_number_type => "an integer within its limits",
            _ if go_type.starts_with("[]") || go_type == "v1.VModuleConfiguration" => "a list",
            _ if is_free_mapping(go_type) => "a mapping",
            "float64" => "a number",
            _ if go_type.starts_with("v1beta1.Kubelet") || is_object(go_type) => "a mapping",
            _ => "a text",
        };
        let finding = StartFinding::new(
            StartCheck::WrongType,
            format!("`{shown}` is {}, but the kubelet requires {wanted}", node.type_name()),
        )
        .on(shown);
        let finding = match (&node.value, go_type) {
            (Value::Str(text), "bool") if matches!(&**text, "true" | "false") => {
                finding.with_fix(format!("write {text} without quotes"))
            }
            (Value::Str(text), _) if is_number_type && text.parse::<i64>().is_ok() => {
                finding.with_fix(format!("write {text} without quotes"))
            }
            (Value::Int(number), "string") => finding.with_fix(format!("write \"{number}\" in quotes")),
            _ => finding,
        };
        self.type_errors.push(TypeError { finding, position: node.position, reason, ends_decoding: false });
    }

    /// Reports the type errors. The kubelet's message has only one of them: the first that ends decoding, or else the
    /// first.
    fn report_type_errors(&mut self) {
        let errors = std::mem::take(&mut self.type_errors);
        let in_message = errors.iter().position(|error| error.ends_decoding).unwrap_or(0);
        for (index, error) in errors.into_iter().enumerate() {
            let reason = (index == in_message).then_some(error.reason.as_str());
            self.refuse(error.finding, error.position, reason, "failed to decode: ");
        }
    }
}

/// Returns the kubelet's message about a configuration file that it cannot load. In 1.28, the message has a shorter
/// beginning.
pub fn load_error(path: &str, error: &str, kubelet: TargetKubelet) -> String {
    let inner = format!("failed to load Kubelet config file {path}, error {error}");
    if !kubelet.release.at_least(29) {
        return inner;
    }
    format!("failed to load kubelet config file, path: {path}, error: {inner}")
}

/// Names a value as Go's messages do. A number is shown if the field requires an integer.
fn go_value(node: &ManifestNode, shows_number: bool) -> String {
    match &node.value {
        Value::Int(number) if shows_number => format!("number {number}"),
        Value::Float(number) if shows_number => format!("number {}", float(*number)),
        _ => node.json_name().to_owned(),
    }
}

/// Removes the indexes of lists from a path, because Go's messages have none.
fn without_indexes(path: &str) -> String {
    path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect()
}

/// Whether the value is a text.
fn is_text(node: &ManifestNode) -> bool {
    node.as_str().is_some()
}

/// Whether a Go type is a structure.
fn is_object(go_type: &str) -> bool {
    go_type.ends_with("Configuration")
        || go_type.ends_with("Options")
        || go_type.ends_with("Config")
        || go_type.ends_with("Taint")
        || go_type.ends_with("Item")
}

/// Returns the name of a structure with its Go package.
fn with_package(path: &str, name: &str) -> String {
    let package = if path.starts_with("logging") || path == "tracing" { "v1" } else { "v1beta1" };
    format!("{package}.{name}")
}
